#include "apps/train/dataset.hpp"

#include "apps/common/installed.hpp"
#include "cistern/observe/files.hpp"

namespace cistern::train {

Dataset find_dataset(const std::string& name) {
  if (name == kMnist)
    return {apps::shipped_folder("data/mnist"), {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
  if (name != kFashionMnist) return {name, {}};
  const std::filesystem::path directory = "/usr/share/datasets/fashion-mnist";
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw FileError(directory.string(),
                    "is not there; it is Debian's package dataset-fashion-mnist, or give the "
                    "directory with its four files instead of its name");
  }
  return {directory,
          {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
           "Ankle boot"}};
}

}  // namespace cistern::train
