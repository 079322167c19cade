// What changes with torch's minor version: the interface that c10_cuda implements has another layout in each, so the
// plug serves the minor it was built for and no other. A new minor is admitted here, and what it adds is added here.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <string>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 11 || TORCH_VERSION_MINOR > 15
#error "cistern's CUDA plug is written for torch 2.11 to 2.15; use the C interface (cistern::c_abi) with other versions"
#endif

namespace cistern {

/// torch's interface, with what minors after 2.11 want answered besides.
class TorchCudaAllocator : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
#if TORCH_VERSION_MINOR >= 12
  /// Of requests refused without asking the driver, by the setting throw_on_cudamalloc_oom; cistern always asks.
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver) override {}
#endif
  /// Overrides in those minors that have it.
  virtual bool supportsUserMetadata() { return true; }
};

/// "2.11.0": the version whose headers this was compiled with.
const char* torch_built_for() noexcept;

/// The version of the torch in this process, as itself or the files beside it say; empty if nothing says.
std::string running_torch_version();

/// Why a torch of that version cannot be served, with the ways out; empty if it can.
std::string why_not_torch(const std::string& running_version);

}  // namespace cistern
