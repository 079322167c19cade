// From a picture to what a network takes in.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <opencv2/core/mat.hpp>

#include "models/weights_file.hpp"

namespace cistern::models {

/// How a picture becomes the network's square.
enum class Resize : std::uint8_t {
  kBilinear,   ///< As tf.image.resize does: half-pixel centres, no antialias, sides not kept in proportion.
  kAntialias,  ///< The same with antialias, as torchvision and Pillow do.
  kCrop,  ///< The middle 7/8 of the shorter side, a square, then with antialias: torchvision's 256 and 224.
};

inline constexpr std::array<std::string_view, 3> kResizeNames{"bilinear", "antialias", "crop"};

/// Shapes: 8-bit of any size, one or three channels -> side x side, rounded. Requires a picture that is not
/// empty.
cv::Mat resized(const cv::Mat& picture, std::int64_t side, Resize how);

/// Pixels to the values that weights want, by a table.
class PixelValues {
 public:
  explicit PixelValues(const Preprocessing& preprocessing);

  /// Writes the picture's values to `values`, channels innermost. Requires a picture of the preprocessing's
  /// size and channels.
  void write(const cv::Mat& picture, float* values) const;

 private:
  std::vector<std::array<float, 256>> tables_;  // One for each channel.
};

}  // namespace cistern::models
