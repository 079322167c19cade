// An image from anybody: upright pixels, or an error. How much memory it may ask for is settled by its
// header.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "models/image_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cistern::models;
  for (const Colour colour : {Colour::kGrey, Colour::kRgb}) {
    try {
      const cv::Mat picture = decode_image({data, size}, colour);
      const ImageHeader header = read_image_header({data, size});
      if (picture.type() != (colour == Colour::kGrey ? CV_8UC1 : CV_8UC3)) std::abort();
      if (picture.total() != header.width * header.height) std::abort();
    } catch (const ImageError&) {
    }
  }
  return 0;
}
