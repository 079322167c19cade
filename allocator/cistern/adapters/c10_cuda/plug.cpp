// Where libcistern_c10_cuda begins for those who find it at run time: the preloaded file and the C interface.
#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/adapters/plug_entry.hpp"

extern "C" int cistern_install_c10_cuda(const char* configuration, char* error, std::size_t error_bytes) {
  return cistern::enter_plug(
      cistern::kCudaPlug, configuration, error, error_bytes,
      [] { return cistern::installed_cuda_allocator() != nullptr; },
      [](const cistern::Options& options) { cistern::install_cuda(options); });
}
