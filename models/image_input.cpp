#include "models/image_input.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>

namespace cistern::models {
namespace {

// Between which two pixels of a line of `from` a pixel of `to` lies, and how near to the second.
struct Neighbours {
  int first;
  int second;
  double nearness;
};

std::vector<Neighbours> neighbours(int from, std::int64_t to) {
  std::vector<Neighbours> result;
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * from / static_cast<double>(to) - 0.5;
    const double below = std::floor(at);
    result.push_back(
        {std::max(static_cast<int>(below), 0), std::min(static_cast<int>(below) + 1, from - 1), at - below});
  }
  return result;
}

// Not cv::resize: of 8-bit pixels it rounds the weights to 11 bits, and floats of a large picture would be a
// copy of four times its size to look at a few pixels. In double and rows first, because that gives the
// published reference inputs to the bit; TensorFlow's own floats miss them by one level in one pixel of 500.
cv::Mat bilinear(const cv::Mat& picture, std::int64_t side) {
  const std::vector<Neighbours> rows = neighbours(picture.rows, side),
                                columns = neighbours(picture.cols, side);
  const int channels = picture.channels();
  const auto mix = [](double a, double b, double nearness) { return a * (1.0 - nearness) + b * nearness; };
  cv::Mat result(static_cast<int>(side), static_cast<int>(side), picture.type());
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const auto* above = picture.ptr<std::uint8_t>(rows[y].first);
    const auto* below = picture.ptr<std::uint8_t>(rows[y].second);
    auto* to = result.ptr<std::uint8_t>(static_cast<int>(y));
    for (const Neighbours& column : columns) {
      for (int c = 0; c < channels; ++c) {
        const int left = column.first * channels + c, right = column.second * channels + c;
        const double value = mix(mix(above[left], below[left], rows[y].nearness),
                                 mix(above[right], below[right], rows[y].nearness), column.nearness);
        *to++ = static_cast<std::uint8_t>(std::lrint(value));
      }
    }
  }
  return result;
}

cv::Mat antialiased(const cv::Mat& picture, std::int64_t side) {
  const std::int64_t channels = picture.channels(), step = static_cast<std::int64_t>(picture.step[0]);
  // Channels innermost, as torch's kernel for bytes wants them.
  const at::Tensor pixels = at::from_blob(picture.data, {1, channels, picture.rows, picture.cols},
                                          {step * picture.rows, 1, step, channels}, at::kByte);
  const at::Tensor small = at::_upsample_bilinear2d_aa(pixels, {side, side}, /*align_corners=*/false)
                               .permute({0, 2, 3, 1})
                               .contiguous();
  return cv::Mat(static_cast<int>(side), static_cast<int>(side), picture.type(), small.data_ptr()).clone();
}

cv::Mat middle(const cv::Mat& picture) {
  const int shorter = std::min(picture.rows, picture.cols), side = std::max(1, (shorter * 7 + 4) / 8);
  return picture(cv::Rect((picture.cols - side) / 2, (picture.rows - side) / 2, side, side));
}

}  // namespace

cv::Mat resized(const cv::Mat& picture, std::int64_t side, Resize how) {
  switch (how) {
    case Resize::kBilinear:
      return bilinear(picture, side);
    case Resize::kAntialias:
      return antialiased(picture, side);
    case Resize::kCrop:
      return antialiased(middle(picture), side);
  }
  return {};
}

PixelValues::PixelValues(const Preprocessing& preprocessing) {
  for (std::size_t c = 0; c < static_cast<std::size_t>(preprocessing.channels); ++c) {
    auto& table = tables_.emplace_back();
    for (int pixel = 0; pixel < 256; ++pixel) {
      table[static_cast<std::size_t>(pixel)] =
          static_cast<float>((pixel / 255.0 - preprocessing.mean[c]) / preprocessing.std[c]);
    }
  }
}

void PixelValues::write(const cv::Mat& picture, float* values) const {
  const std::size_t channels = tables_.size();
  for (int y = 0; y < picture.rows; ++y) {
    const auto* pixels = picture.ptr<std::uint8_t>(y);
    for (std::size_t i = 0; i < static_cast<std::size_t>(picture.cols) * channels; ++i)
      *values++ = tables_[i % channels][pixels[i]];
  }
}

}  // namespace cistern::models
