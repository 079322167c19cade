#include "apps/common/installed.hpp"

#include "apps/common/subprocess.hpp"

namespace cistern::apps {

namespace fs = std::filesystem;

fs::path shipped_folder(const std::string& name) {
  std::error_code error;
  const fs::path installed = fs::path(own_executable()).parent_path() / CISTERN_INSTALLED_FILES / name;
  if (fs::is_directory(installed, error)) return installed.lexically_normal();
  return fs::path(CISTERN_SOURCE_TREE) / name;
}

}  // namespace cistern::apps
