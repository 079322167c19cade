#include "cistern/sources/cuda/foreign_source.hpp"

#include <utility>

namespace cistern {

std::unique_ptr<WholeSource> make_foreign_source(ForeignAllocator allocator, const ForeignOptions& options) {
  WholeMemory memory;
  memory.traits.name = "foreign";
  memory.traits.granule_bytes = options.granule_bytes;
  memory.traits.capacity_bytes = options.capacity_bytes;
  memory.traits.range_step_bytes = options.granule_bytes;
  memory.take = [allocate = std::move(allocator.allocate)](std::size_t bytes) {
    return reinterpret_cast<Address>(allocate(bytes));
  };
  memory.give = [release = std::move(allocator.release)](Address address) {
    release(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
  };
  return std::make_unique<WholeSource>(std::move(memory));
}

}  // namespace cistern
