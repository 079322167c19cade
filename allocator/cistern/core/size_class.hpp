// Bins: eight per power of two, so a bin's blocks differ by less than an eighth of their size.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace cistern {

inline constexpr std::uint32_t kBinsPerPowerOfTwo = 8;
inline constexpr std::uint32_t kBinCount = 64 * kBinsPerPowerOfTwo;

/// The bin of a block of that size. Requires bytes >= 8. Monotonic: a larger size never has a lower bin.
constexpr std::uint32_t bin_of(std::size_t bytes) noexcept {
  const auto log2 = static_cast<std::uint32_t>(std::bit_width(bytes | 1)) - 1;  // | 1: not zero, the compiler sees
  return (log2 - 1) * kBinsPerPowerOfTwo + static_cast<std::uint32_t>(bytes >> (log2 - 3));
}

/// The least size of a bin. Requires bin >= bin_of(8).
constexpr std::size_t bin_floor_bytes(std::uint32_t bin) noexcept {
  const std::uint32_t log2 = bin / kBinsPerPowerOfTwo;
  return (std::size_t{8} + bin % kBinsPerPowerOfTwo) << (log2 - 3);
}

}  // namespace cistern
