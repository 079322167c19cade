// cistern under LibTorch's pinned host memory: one call.
#pragma once

#include "cistern/core/config.hpp"

namespace cistern {

/// Puts a CachingAllocator over page-locked memory under pin_memory(), pinned tensors and the staging of copies, as
/// at::setHostAllocator(kCUDA) with priority 255: blocks are split and coalesced, not rounded to powers of two, and come
/// back only when the streams that copy from or to them have passed. Without a limit, TF_GPU_HOST_MEM_LIMIT_IN_MB is the
/// limit, if it is set. CISTERN_CONF speaks of tensors on devices and does not count here, unless the plug is loaded by
/// name, as `cistern run --devices pinned` and Python's install do. The trace of Options::record gets the ending .pinned.
/// Pinned tensors made before the call keep working and go back where they came from. Nothing is pinned, and no device
/// used, before the first pinned tensor. Never destroyed. A second call changes nothing. The device is then named "pinned".
/// Fails: throws std::runtime_error when torch is of another minor than the plug was built for, or there is no CUDA
/// runtime; MemoryError when host memory is to be preallocated without an amount; std::invalid_argument when the
/// environment variable is no number.
/// Threads: torch wants allocators set while no other thread allocates.
void install_pinned(const Options& options = {});

}  // namespace cistern
