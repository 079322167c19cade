#include "models/image_header.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace cistern::models {
namespace {

using Bytes = std::span<const std::uint8_t>;

enum class Order { kBig, kLittle };

std::uint64_t number(Bytes bytes, std::size_t at, std::size_t width, Order order) {
  if (at > bytes.size() || width > bytes.size() - at) throw ImageError("is cut short within its header");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value = value << 8 | bytes[at + (order == Order::kBig ? i : width - 1 - i)];
  return value;
}
std::uint64_t big(Bytes bytes, std::size_t at, std::size_t width) {
  return number(bytes, at, width, Order::kBig);
}
std::uint64_t little(Bytes bytes, std::size_t at, std::size_t width) {
  return number(bytes, at, width, Order::kLittle);
}

bool has(Bytes bytes, std::size_t at, std::string_view text) {
  return at <= bytes.size() && text.size() <= bytes.size() - at &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char c, std::uint8_t byte) { return static_cast<std::uint8_t>(c) == byte; });
}

Bytes part(Bytes bytes, std::size_t at, std::size_t most) {
  return at < bytes.size() ? bytes.subspan(at, std::min(most, bytes.size() - at)) : Bytes{};
}

// EXIF data are a small TIFF file: a byte order, then a directory of 12-byte entries.
int orientation_of(Bytes exif) try {
  constexpr std::uint64_t kOrientation = 0x0112;
  const Order order = has(exif, 0, "II") ? Order::kLittle : Order::kBig;
  const std::uint64_t directory = number(exif, 4, 4, order);
  const std::uint64_t entries = number(exif, directory, 2, order);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + 2 + 12 * i;
    if (number(exif, entry, 2, order) != kOrientation) continue;
    const std::uint64_t value = number(exif, entry + 8, 2, order);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
} catch (const ImageError&) {
  return 1;
}

// Within a JPEG's pixels the two bytes of its end cannot occur. Looked for from behind, where they belong.
bool has_end(Bytes file) {
  constexpr std::uint8_t kEnd[] = {0xd9, 0xff};
  return std::search(file.rbegin(), file.rend(), std::begin(kEnd), std::end(kEnd)) != file.rend();
}

ImageHeader jpeg_header(Bytes file) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  ImageHeader header;
  for (std::size_t at = 2;;) {
    while (big(file, at, 1) != 0xff) ++at;  // Decoders skip what is between segments.
    while (big(file, at, 1) == 0xff) ++at;
    const std::uint64_t marker = big(file, at++, 1);
    const bool alone = marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8);
    if (alone) continue;
    if (marker == 0xd9 || marker == 0xda) throw ImageError("has no size before its data: it is damaged");
    const std::uint64_t length = big(file, at, 2);
    const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) {
      header.height = big(file, at + 3, 2);
      header.width = big(file, at + 5, 2);
      header.cut_off = !has_end(file.subspan(at));
      return header;
    }
    if (marker == 0xe1 && has(file, at + 2, kExif))
      header.orientation = orientation_of(part(file, at + 8, length));
    at += std::max<std::uint64_t>(length, 2);
  }
}

ImageHeader png_header(Bytes file) {
  if (!has(file, 12, "IHDR")) throw ImageError("is damaged: a PNG file starts with IHDR");
  ImageHeader header{big(file, 16, 4), big(file, 20, 4)};
  for (std::uint64_t at = 8; at + 8 <= file.size();) {
    const std::uint64_t length = big(file, at, 4);
    if (has(file, at + 4, "eXIf")) header.orientation = orientation_of(part(file, at + 8, length));
    at += 12 + length;
  }
  return header;
}

ImageHeader webp_header(Bytes file) {
  ImageHeader header;
  if (has(file, 12, "VP8 ")) {
    header.width = little(file, 26, 2) & 0x3fff;
    header.height = little(file, 28, 2) & 0x3fff;
  } else if (has(file, 12, "VP8L")) {
    const std::uint64_t sizes = little(file, 21, 4);
    header.width = 1 + (sizes & 0x3fff);
    header.height = 1 + (sizes >> 14 & 0x3fff);
  } else if (has(file, 12, "VP8X")) {
    header.width = 1 + little(file, 24, 3);
    header.height = 1 + little(file, 27, 3);
    for (std::uint64_t at = 12; at + 8 <= file.size();) {
      const std::uint64_t length = little(file, at + 4, 4);
      if (has(file, at, "EXIF")) header.orientation = orientation_of(part(file, at + 8, length));
      at += 8 + length + length % 2;
    }
  } else {
    throw ImageError("is damaged: no WebP picture where one should begin");
  }
  return header;
}

ImageHeader bmp_header(Bytes file) {
  if (little(file, 14, 4) == 12) return {little(file, 18, 2), little(file, 20, 2)};
  const auto height = static_cast<std::int32_t>(little(file, 22, 4));  // Negative: stored from the top.
  return {little(file, 18, 4), static_cast<std::uint64_t>(std::abs(std::int64_t{height}))};
}

}  // namespace

ImageHeader read_image_header(Bytes file) {
  if (file.empty()) throw ImageError("is empty");
  if (has(file, 0, "\xff\xd8")) return jpeg_header(file);
  if (has(file, 0, "\x89PNG\r\n\x1a\n")) return png_header(file);
  if (has(file, 0, "RIFF") && has(file, 8, "WEBP")) return webp_header(file);
  if (has(file, 0, "BM")) return bmp_header(file);
  throw ImageError("is no JPEG, PNG, WebP or BMP image");
}

}  // namespace cistern::models
