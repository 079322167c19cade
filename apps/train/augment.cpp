#include "apps/train/augment.hpp"

#include <algorithm>
#include <cmath>

#include <opencv2/imgproc.hpp>

#include "models/image_input.hpp"

namespace cistern::train {
namespace {

cv::Mat cropped(const cv::Mat& picture, std::int64_t side, cv::RNG& random) {
  const double area = random.uniform(0.75, 1.0);
  const double stretch = std::exp(random.uniform(std::log(0.8), std::log(1.25)));
  const auto part_of = [&](int whole, double share) {
    return std::clamp(static_cast<int>(std::lround(whole * share)), 1, whole);
  };
  const int width = part_of(picture.cols, std::sqrt(area * stretch));
  const int height = part_of(picture.rows, std::sqrt(area / stretch));
  const int left = random.uniform(0, picture.cols - width + 1),
            top = random.uniform(0, picture.rows - height + 1);
  const bool shrinks = width > side && height > side;
  cv::Mat result;
  cv::resize(picture(cv::Rect(left, top, width, height)), result,
             cv::Size(static_cast<int>(side), static_cast<int>(side)), 0, 0,
             shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  return result;
}

}  // namespace

Augmentation augmentation_from(const std::string& text) {
  return {text.find("crop") != std::string::npos, text.find("flip") != std::string::npos};
}

cv::Mat augmented(const cv::Mat& picture, std::int64_t side, const Augmentation& augmentation,
                  std::uint64_t draw) {
  cv::RNG random(draw);
  cv::Mat result = augmentation.crop ? cropped(picture, side, random)
                                     : models::resized(picture, side, models::Resize::kBilinear);
  if (augmentation.flip && random.uniform(0, 2) == 1) cv::flip(result, result, 1);
  return result;
}

}  // namespace cistern::train
