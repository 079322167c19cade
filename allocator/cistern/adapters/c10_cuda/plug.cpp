// Where libcistern_c10_cuda begins for those who find it at run time: the preloaded file and the C interface.
#include <cstddef>
#include <cstdio>
#include <exception>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/adapters/plugs.hpp"

extern "C" int cistern_install_c10_cuda(const char* configuration, char* error, std::size_t error_bytes) {
  const auto outcome = [&](cistern::PlugOutcome code, const char* why) {
    std::snprintf(error, error_bytes, "%s", why);
    return code;
  };
  try {
    if (cistern::installed_cuda_allocator() != nullptr) {
      return outcome(cistern::kPlugPresent, "cuda is served by cistern already");
    }
    const auto options = cistern::parse_config(configuration);
    if (!options) return outcome(cistern::kPlugFailed, options.error().message.c_str());
    cistern::install_cuda(*options);
    return cistern::kPlugInstalled;
  } catch (const std::exception& exception) {
    return outcome(cistern::kPlugFailed, exception.what());
  }
}
