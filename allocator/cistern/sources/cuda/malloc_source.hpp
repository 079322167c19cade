// Memory that the CUDA runtime hands out whole: device memory by cudaMalloc, pinned host memory by cudaHostAlloc.
#pragma once

#include <cstddef>
#include <memory>

#include "cistern/base/units.hpp"
#include "cistern/sources/cuda/driver_api.hpp"
#include "cistern/sources/cuda/whole_source.hpp"

namespace cistern {

struct MallocOptions {
  std::size_t granule_bytes = 2 * kMiB;  ///< Segments are multiples of it, and so aligned; a power of two.
};

/// Device memory; for devices without virtual memory management, and for users of legacy IPC.
/// Fails with DriverError.
std::unique_ptr<WholeSource> make_malloc_source(const DriverApi& api, int device, const MallocOptions& options = {});

/// Pinned host memory, allocated with the device's context. Its capacity is the host's physical memory.
std::unique_ptr<WholeSource> make_pinned_source(const DriverApi& api, int device, const MallocOptions& options = {});

}  // namespace cistern
