// Where libcistern_c10_cpu begins for those who find it at run time: the preloaded file and the C interface.
#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/adapters/plug_entry.hpp"
#include "cistern/adapters/registry.hpp"

extern "C" int cistern_install_c10_cpu(const char* configuration, char* error, std::size_t error_bytes) {
  return cistern::enter_plug(
      cistern::kCpuPlug, configuration, error, error_bytes, [] { return cistern::find_device("cpu") != nullptr; },
      [](const cistern::Options& options) { cistern::install_cpu(options); });
}
