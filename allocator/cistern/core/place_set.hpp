// A set of small numbers that knows the largest member up to a number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cistern {

/// A bit a number, and a bit for each word of bits below that is not zero. Cost: O(log_64 size), no host allocation but
/// in the constructor.
class PlaceSet {
 public:
  /// Of the numbers below `size`.
  explicit PlaceSet(std::size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }

  void insert(std::size_t number) noexcept {
    for (std::vector<std::uint64_t>& words : levels_) {
      words[number / 64] |= std::uint64_t{1} << (number % 64);
      number /= 64;
    }
  }

  void erase(std::size_t number) noexcept {
    for (std::vector<std::uint64_t>& words : levels_) {
      words[number / 64] &= ~(std::uint64_t{1} << (number % 64));
      if (words[number / 64] != 0) return;
      number /= 64;
    }
  }

  std::optional<std::size_t> largest_up_to(std::size_t number) const noexcept {
    std::size_t level = 0;
    for (;; ++level) {
      const std::uint64_t below = levels_[level][number / 64] & (~std::uint64_t{0} >> (63 - number % 64));
      if (below != 0) {
        number = number / 64 * 64 + static_cast<std::size_t>(63 - std::countl_zero(below));
        break;
      }
      number /= 64;
      if (number == 0 || level + 1 == levels_.size()) return std::nullopt;
      --number;
    }
    while (level-- > 0) {
      number = number * 64 + static_cast<std::size_t>(63 - std::countl_zero(levels_[level][number]));
    }
    return number;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;  // the first has the numbers themselves
};

}  // namespace cistern
