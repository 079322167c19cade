// Where libcistern_c10_host begins for those who find it at run time: the preloaded file and the C interface.
#include "cistern/adapters/c10_host/host_allocator.hpp"
#include "cistern/adapters/c10_host/install.hpp"
#include "cistern/adapters/environment.hpp"
#include "cistern/adapters/plug_entry.hpp"

/// Whoever names pinned memory among the devices wants what is said of all devices to hold for it, too.
extern "C" int cistern_install_c10_host(const char* configuration, char* error, std::size_t error_bytes) {
  return cistern::enter_plug(
      cistern::kPinnedPlug, configuration, error, error_bytes,
      [] { return cistern::installed_pinned_allocator() != nullptr; },
      [](const cistern::Options& options) { cistern::install_pinned(cistern::with_cistern_conf(options)); });
}
