// From an image file to upright 8-bit pixels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <opencv2/core/mat.hpp>

#include "models/image_header.hpp"

namespace cistern::models {

/// No larger picture is decoded (8192 x 8192 is not), and no longer file is read.
inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 26;
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 28;

enum class Colour : std::uint8_t {
  kGrey,  ///< One channel.
  kRgb,   ///< Three, in this order.
};

/// Decodes a JPEG, PNG, WebP or BMP file that is in memory, turned upright as its EXIF data say. 16 bits are
/// rounded to 8; what is transparent is laid over white; BMP's fourth byte is no transparency. Fails with
/// ImageError: as read_image_header, too large, damaged. Cost: memory of at most 16 bytes a pixel. Threads:
/// one at a time; what is written to stderr meanwhile, by whomever, is taken as what the decoders say, and
/// swallowed.
cv::Mat decode_image(std::span<const std::uint8_t> file, Colour colour);

/// The same of a file. Fails with FileError.
cv::Mat read_image(const std::filesystem::path& file, Colour colour);

/// Whether a name ends as image files do: .jpg, .jpeg, .png, .webp, .bmp, in any case.
bool has_image_name(const std::filesystem::path& file);

/// The files with such names in a folder and all below it, by name. Fails with
/// std::filesystem::filesystem_error.
std::vector<std::filesystem::path> images_below(const std::filesystem::path& folder);

}  // namespace cistern::models
