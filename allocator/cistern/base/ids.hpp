// Identities are types: a RangeId cannot be passed where a StreamId is wanted.
#pragma once

#include <compare>
#include <cstdint>

namespace cistern {

template <class Tag, class Rep>
struct Id {
  Rep value{};
  friend constexpr bool operator==(Id a, Id b) noexcept { return a.value == b.value; }
  friend constexpr auto operator<=>(Id a, Id b) noexcept { return a.value <=> b.value; }
};

using DeviceId = Id<struct DeviceTag, std::uint16_t>;
using PoolId = Id<struct PoolTag, std::uint16_t>;     ///< 0 is the default pool.
using StreamId = Id<struct StreamTag, std::uint64_t>;  ///< An identity, never a reusable handle.
using RangeId = Id<struct RangeTag, std::uint32_t>;    ///< Given out by a MemorySource.
using FenceId = Id<struct FenceTag, std::uint64_t>;    ///< Given out by StreamFences.

using Address = std::uintptr_t;

}  // namespace cistern
