// What a program says of a device: applied at once where the device is there, kept until then otherwise.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "cistern/base/ids.hpp"
#include "cistern/base/units.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {

/// Fails with MemoryError::kAboveCapacity.
std::size_t checked_limit(const CachingAllocator& allocator, Amount limit);
/// Fails with MemoryError: kAboveCapacity, kInUse.
void change_limit(CachingAllocator& allocator, Amount limit, PoolId pool = {});
/// Fails with MemoryError::kNoAmount.
void change_growth(std::string_view device, CachingAllocator& allocator, bool growth);

/// An Amount that means none.
inline constexpr Amount kUnlimited{kNoLimit, 0.0};

struct DeviceSettings {
  std::optional<bool> growth{};
  std::optional<Amount> limit{};
  std::optional<std::size_t> headroom_bytes{};

  /// Fails as the functions above.
  void apply(std::string_view device, CachingAllocator& allocator) const;
};

}  // namespace cistern
