// Judges a snapshot by itself: what tiles, what merges, what it sums to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cistern/core/caching_allocator.hpp"

namespace cistern::support {

/// Blocks tile each range (I1), no two mergeable free neighbours (I2), committed bytes sum to reserved (I5),
/// active and inactive-split bytes are those of the statistics. The first of these that does not hold.
std::optional<std::string> broken_tiling(const std::vector<RangeInfo>& snapshot, const Stats& stats);

/// The snapshot as text, for golden comparisons: one line a range, then its blocks as "offset+bytes state".
std::string to_text(const std::vector<RangeInfo>& snapshot);

}  // namespace cistern::support
