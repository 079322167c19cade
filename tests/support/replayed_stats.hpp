// Statistics as they follow from events alone, to hold against those an allocator keeps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cistern/core/stats.hpp"

namespace cistern::support {

/// Events do not say which blocks are small: by class it follows from sizes, which holds while the allocator is refused
/// no memory and never remaps, and so lends no block to the other class, and what is reserved does not follow at all. Inactive-split is not
/// replayed.
struct ReplayedStats : BlockStats {
  std::array<BlockStats, kClassCount> of_class;
  std::size_t small_block_bytes = 0;  ///< Least size of a large block; 0 if every block is large.

  void granted(std::size_t bytes, std::size_t granted_bytes) noexcept;
  void freed(std::size_t bytes, std::size_t granted_bytes) noexcept;
  /// Freed, and no stream uses it any more.
  void inactive(std::size_t granted_bytes) noexcept;
  void committed(std::size_t bytes, bool first_of_range) noexcept;
  void decommitted(std::size_t bytes, bool last_of_range) noexcept;
  void reset_peak() noexcept;
  void reset_accumulated() noexcept;

  /// The first figure in which the allocator's own statistics differ, said in one line.
  std::optional<std::string> difference(const Stats& kept) const;
  /// The same of the classes.
  std::optional<std::string> class_difference(const Stats& kept) const;

 private:
  BlockStats& class_of(std::size_t granted_bytes) noexcept {
    return of_class[granted_bytes < small_block_bytes ? kSmallBlocks : kLargeBlocks];
  }
};

/// requested <= allocated <= active <= reserved and current <= peak (I6); the first that does not hold.
std::optional<std::string> broken_order(const Stats& stats);

}  // namespace cistern::support
