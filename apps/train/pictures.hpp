// Labelled pictures to train MobileNetV2 on: an IDX set in memory, or a folder of image files that are
// decoded when they are looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/dataset.hpp"

namespace cv {
class Mat;
}

namespace cistern::train {

class Pictures {
 public:
  Pictures() = default;
  Pictures(const Pictures&) = delete;
  Pictures& operator=(const Pictures&) = delete;
  virtual ~Pictures() = default;

  virtual std::int64_t count() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Shapes: 8-bit, any size, `channels` 1 (grey) or 3 (RGB). Fails with FileError.
  virtual cv::Mat picture(std::int64_t index, std::int64_t channels) const = 0;
};

struct PictureSets {
  std::unique_ptr<Pictures> train, test;
  std::vector<std::string> labels;
  std::int64_t channels = 3;         ///< That the pictures have by nature: 1 in an IDX set.
  std::optional<std::int64_t> side;  ///< Where all are squares of one size: in an IDX set.
};

/// A directory with MNIST's four files, with pictures of any size; or one with train/CLASS/NAME.jpg and
/// test/CLASS/NAME.jpg, or CLASS/NAME.jpg, of which every tenth by name is then for the test. Fails with
/// FileError, and with std::runtime_error in a build without OpenCV.
std::shared_ptr<const PictureSets> open_pictures(const Dataset& dataset);

}  // namespace cistern::train
