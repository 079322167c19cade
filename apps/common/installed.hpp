// Files that come with the programs.
#pragma once

#include <filesystem>
#include <string>

namespace cistern::apps {

/// "data/mnist" or "weights": in an install tree beside the program, in a build tree in the sources.
std::filesystem::path shipped_folder(const std::string& name);

}  // namespace cistern::apps
