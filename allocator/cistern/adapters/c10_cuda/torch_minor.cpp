#include "cistern/adapters/c10_cuda/torch_minor.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cctype>
#include <cstdint>
#include <fstream>

namespace cistern {
namespace {

/// The first thing in the text that looks like 2.11.0.
std::string first_version(const std::string& text) {
  const auto digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (!digit(begin)) continue;
    std::size_t end = begin;
    int dots = 0;
    while (digit(end) || (end < text.size() && text[end] == '.' && digit(end + 1) && dots < 2))
      dots += text[end++] == '.' ? 1 : 0;
    if (dots == 2) return text.substr(begin, end - begin);
    begin = end;
  }
  return {};
}

std::string version_of_file(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (std::string version = first_version(line); !version.empty()) return version;
  }
  return {};
}

std::string minor_of(const std::string& version) { return version.substr(0, version.rfind('.')); }

}  // namespace

const char* torch_built_for() noexcept { return CISTERN_TORCH_VERSION; }

std::string running_torch_version() {
  // libtorch_cpu says it itself; with libc10_cuda alone, the wheel or the unpacked archive around it does.
  if (auto* abi_version = reinterpret_cast<std::uint64_t (*)()>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"))) {
    const std::uint64_t version = abi_version();
    const auto part = [&](unsigned shift) { return std::to_string((version >> shift) & 0xff); };
    return part(56) + "." + part(48) + "." + part(40);
  }
  void* library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  link_map* place = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &place) != 0) return {};
  const std::string path = place->l_name;
  dlclose(library);
  const std::string folder = path.find('/') == std::string::npos ? "." : path.substr(0, path.rfind('/'));
  for (const char* file : {"/../version.py", "/../build-version"}) {
    if (std::string version = version_of_file(folder + file); !version.empty()) return version;
  }
  return {};
}

std::string why_not_torch(const std::string& running_version) {
  const std::string ways_out =
      "; build cistern against that torch, or use the C interface (cistern::c_abi) with CUDAPluggableAllocator, which "
      "serves every version";
  const std::string built_for = "cistern's CUDA plug was built for torch " + std::string(torch_built_for());
  if (running_version.empty()) return built_for + " and cannot tell which torch this process has" + ways_out;
  if (minor_of(running_version) == minor_of(torch_built_for())) return {};
  return built_for + ", and this process has torch " + running_version + ways_out;
}

}  // namespace cistern
