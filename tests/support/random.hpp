// Seeded randomness that is the same on every standard library.
#pragma once

#include <bit>
#include <cstdint>

namespace cistern::support {

/// splitmix64: one multiplication chain a number, no state beyond a counter.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// In [0, bound); 0 for a bound of 0.
  std::uint64_t below(std::uint64_t bound) noexcept { return bound == 0 ? 0 : next() % bound; }

  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

  /// In [low, high], each power of two equally likely. Requires 1 <= low <= high.
  std::uint64_t log_uniform(std::uint64_t low, std::uint64_t high) noexcept {
    const std::uint64_t low_exponent = static_cast<std::uint64_t>(std::bit_width(low)) - 1;
    const std::uint64_t high_exponent = static_cast<std::uint64_t>(std::bit_width(high)) - 1;
    const std::uint64_t power = std::uint64_t{1} << (low_exponent + below(high_exponent - low_exponent + 1));
    const std::uint64_t value = power + below(power);
    return value < low ? low : value > high ? high : value;
  }

 private:
  std::uint64_t state_;
};

}  // namespace cistern::support
