// cistern under what torch's XNNPACK operators make on the CPU.
#pragma once

#include <c10/mobile/CPUCachingAllocator.h>

namespace cistern {

/// While it lives, torch's mobile CPU allocator (c10::GetDefaultMobileCPUAllocator), which SetCPUAllocator does not
/// reach, takes this thread's memory from the allocator of install_cpu: prepacked::conv2d_clamp_run and its like then
/// make their outputs in it. torch adds its guard bytes, 64 before and 16 after the data, itself.
/// Requires that tensors made under it are freed under one, on whichever thread: torch decides at the time of the free,
/// and without a guard would give the block to the C library. Installs cistern if it is not.
class MobileMemoryGuard {
 public:
  MobileMemoryGuard();

 private:
  c10::WithCPUCachingAllocatorGuard guard_;
};

}  // namespace cistern
