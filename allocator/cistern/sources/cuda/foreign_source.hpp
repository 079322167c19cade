// Segments of somebody else's allocator, for a MemPool that was created with one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "cistern/base/units.hpp"
#include "cistern/sources/cuda/whole_source.hpp"

namespace cistern {

/// What the functions capture (a shared_ptr to the allocator, say) is kept until the last segment went back, however
/// long ago the pool died.
struct ForeignAllocator {
  std::function<void*(std::size_t bytes)> allocate;  ///< nullptr: memory ran out.
  std::function<void(void* address)> release;
};

struct ForeignOptions {
  std::size_t granule_bytes = 2 * kMiB;  ///< Segments are multiples of it; a power of two.
  std::size_t capacity_bytes = 0;        ///< Of the device the segments lie on.
};

/// Never remapped: segments go back whole, through the functions they came from.
std::unique_ptr<WholeSource> make_foreign_source(ForeignAllocator allocator, const ForeignOptions& options);

}  // namespace cistern
