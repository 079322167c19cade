// Data sets by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cistern::train {

inline constexpr const char* kMnist = "mnist";
inline constexpr const char* kFashionMnist = "fashion-mnist";

struct Dataset {
  std::filesystem::path directory;
  std::vector<std::string> labels;  ///< Of an IDX set with a name; else empty.
};

/// Of "mnist", which is shipped, "fashion-mnist", which is Debian's dataset-fashion-mnist, or a directory,
/// which need not exist. Fails with FileError where fashion-mnist is not installed.
Dataset find_dataset(const std::string& name_or_directory);

}  // namespace cistern::train
