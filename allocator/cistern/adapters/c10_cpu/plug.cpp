// Where libcistern_c10_cpu begins for those who find it at run time: the preloaded file and the C interface.
#include <cstddef>
#include <cstdio>
#include <exception>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/adapters/plugs.hpp"
#include "cistern/adapters/registry.hpp"

extern "C" int cistern_install_c10_cpu(const char* configuration, char* error, std::size_t error_bytes) {
  const auto outcome = [&](cistern::PlugOutcome code, const char* why) {
    std::snprintf(error, error_bytes, "%s", why);
    return code;
  };
  try {
    if (cistern::find_device("cpu") != nullptr)
      return outcome(cistern::kPlugPresent, "cpu is served by cistern already");
    const auto options = cistern::parse_config(configuration);
    if (!options) return outcome(cistern::kPlugFailed, options.error().message.c_str());
    cistern::install_cpu(*options);
    return cistern::kPlugInstalled;
  } catch (const std::exception& exception) {
    return outcome(cistern::kPlugFailed, exception.what());
  }
}
