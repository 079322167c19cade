// cistern under LibTorch's CUDA tensors: one call, before CUDA is first used.
#pragma once

#include <stdexcept>
#include <string>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/core/config.hpp"

namespace cistern {

/// Why install_cuda refused.
class InstallError : public std::runtime_error {
 public:
  enum class Reason {
    kInstalledOtherwise,  ///< By an earlier call, with other options.
    kInitialisedBefore,   ///< CUDA memory is another allocator's already; see IfInitialised.
    kWrongTorch,          ///< Of another minor than the plug was built for.
    kNoRuntime,           ///< There is no CUDA runtime to take memory from.
  };
  InstallError(Reason reason, const std::string& text) : std::runtime_error(text), reason_(reason) {}
  Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

/// What to do when CUDA was initialised before.
enum class IfInitialised {
  kRefuse,
  /// Serve what is allocated from now on, and hand pointers of the allocator before us back to it. What only that one
  /// knows stays with it: its statistics, its pools, its observers, and memory that it caches.
  kTakeOver,
};

/// Puts a CachingAllocator over each device's memory under torch's CUDA tensors, in torch's allocator and in its
/// registry with priority 255. What environment variables say (CISTERN_CONF, and those that with_environment names) is
/// applied on top of `options`. Never destroyed, because tensors outlive main. A second call with the same options
/// changes nothing. No device is touched before it is used. The traces of Options::record get the names of the devices.
/// Fails: throws InstallError, and std::invalid_argument when CISTERN_CONF is wrong.
/// Threads: torch wants allocators set while no other thread allocates.
void install_cuda(const Options& options = {}, IfInitialised if_initialised = IfInitialised::kRefuse);

/// The allocator of a device; it is made, and the device's context with it, if nobody used the device yet.
/// Requires install_cuda. Fails with std::out_of_range, naming how many devices there are, and with DriverError.
CachingAllocator& cuda_allocator(int device = 0);

}  // namespace cistern
