#include "cistern/adapters/device_settings.hpp"

#include <string>

#include "cistern/adapters/memory.hpp"

namespace cistern {

using Reason = MemoryError::Reason;

std::size_t checked_limit(const CachingAllocator& allocator, Amount limit) {
  const std::size_t capacity = allocator.source_traits().capacity_bytes;
  const std::size_t bytes = limit.resolve(capacity);
  if (bytes > capacity) {
    throw MemoryError(Reason::kAboveCapacity, "cistern: a limit of " + format_bytes(bytes) +
                                                  " is more than the device has (" + format_bytes(capacity) + ")");
  }
  return bytes;
}

void change_limit(CachingAllocator& allocator, Amount limit, PoolId pool) {
  if (limit == kUnlimited) return allocator.clear_limit(pool);
  const auto changed = allocator.set_limit(checked_limit(allocator, limit), pool);
  if (!changed) throw MemoryError(Reason::kInUse, changed.error().explain());
}

void change_growth(std::string_view device, CachingAllocator& allocator, bool growth) {
  if (growth) return allocator.set_strategy(Strategy::kGrowth);
  const bool of_host = device == "cpu" || device == "pinned";
  if (of_host && allocator.limit_bytes() == kNoLimit && allocator.options().preallocate == Amount{}) {
    throw MemoryError(Reason::kNoAmount, "cistern: without growth, '" + std::string(device) +
                                             "' would take all memory of the host; set a memory limit first");
  }
  allocator.set_strategy(Strategy::kPreallocate);
}

void DeviceSettings::apply(std::string_view device, CachingAllocator& allocator) const {
  if (limit) change_limit(allocator, *limit);
  if (headroom_bytes) allocator.set_headroom(*headroom_bytes);
  if (growth) change_growth(device, allocator, *growth);
}

}  // namespace cistern
