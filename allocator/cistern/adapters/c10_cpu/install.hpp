// cistern under LibTorch's CPU tensors: one call, before or after the first tensor.
#pragma once

#include <cstdint>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/core/config.hpp"

namespace cistern {

/// Puts a CachingAllocator over host memory under torch's CPU tensors, as SetCPUAllocator with priority 255. What the
/// environment variable CISTERN_CONF says is applied on top of `options`. Tensors made before the call keep working and
/// go back where they came from. The allocator is never destroyed, because tensors outlive main. A second call returns
/// the allocator of the first.
/// Fails: throws std::invalid_argument when CISTERN_CONF is wrong, FileError when the trace of Options::record cannot be
/// written, MemoryError when what was said of "cpu" before (memory.hpp) cannot be.
/// Threads: torch wants allocators set while no other thread allocates.
CachingAllocator& install_cpu(const Options& options = {});

/// What torch's calls into the CPU allocator cost, from one call in 64 measured.
struct CallCost {
  std::uint64_t calls = 0;
  double seconds = 0.0;  ///< Estimated for all calls.
};

/// Since install_cpu; zero before it.
CallCost cpu_call_cost();

}  // namespace cistern
