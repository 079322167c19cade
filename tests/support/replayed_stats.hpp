// Statistics as they follow from events alone, to hold against those an allocator keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cistern/core/stats.hpp"

namespace cistern::support {

struct ReplayedStats {
  Stat requested;
  Stat allocated;
  Stat active;
  Stat reserved;
  Stat allocations;
  Stat active_blocks;
  Stat segments;

  static void add(Stat& stat, std::uint64_t amount) noexcept;
  static void subtract(Stat& stat, std::uint64_t amount) noexcept;
  void reset_peak() noexcept;
  void reset_accumulated() noexcept;

  /// The first figure in which the allocator's own statistics differ, said in one line.
  std::optional<std::string> difference(const Stats& kept) const;
};

/// requested <= allocated <= active <= reserved and current <= peak (I6); the first that does not hold.
std::optional<std::string> broken_order(const Stats& stats);

}  // namespace cistern::support
