// Pictures a little different each time they are looked at.
#pragma once

#include <cstdint>
#include <string>

#include <opencv2/core/mat.hpp>

namespace cistern::train {

struct Augmentation {
  bool crop =
      false;  ///< A part of 3/4 to all of the area, its sides in a proportion 4/5 to 5/4 of the picture's.
  bool flip = false;  ///< Every second mirrored, left to right.
};

/// Of "none", "crop", "flip" or "crop,flip". Requires one of these.
Augmentation augmentation_from(const std::string& text);

/// Shapes: as the picture, side x side. `draw` decides all that is random.
cv::Mat augmented(const cv::Mat& picture, std::int64_t side, const Augmentation& augmentation,
                  std::uint64_t draw);

}  // namespace cistern::train
