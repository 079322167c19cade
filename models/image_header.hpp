// What an image file says of itself in its first bytes, read before anything is decoded, so that a file of a
// few bytes cannot ask for gigabytes.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>

namespace cistern::models {

/// What is wrong with an image, without its name.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ImageHeader {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
  int orientation =
      1;  ///< EXIF's, 1 to 8: how the stored pixels are to be turned and mirrored to be upright.
  bool cut_off = false;  ///< A JPEG without an end: its decoder would fill it up with grey and say nothing.

  friend bool operator==(const ImageHeader&, const ImageHeader&) = default;
};

/// Of a JPEG, PNG, WebP or BMP file. Fails with ImageError: empty, another format, cut short within the
/// header. Damaged EXIF data count as none.
ImageHeader read_image_header(std::span<const std::uint8_t> file);

}  // namespace cistern::models
