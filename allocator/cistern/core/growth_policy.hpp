// On a miss: how much to ask for beyond the need, and how much of it to take from idle granules elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cistern/base/units.hpp"
#include "cistern/core/config.hpp"
#include "cistern/core/memory_source.hpp"
#include "cistern/core/stream_fences.hpp"

namespace cistern {

/// What the policies may look at, all in bytes.
struct GrowthFacts {
  std::size_t held_of_kind = 0;  ///< Committed in the heap's ranges of this kind (small or large).
  std::size_t preallocated = 0;  ///< What preallocation got; 0 before it happened.
  std::size_t limit = 0;
  std::size_t available = 0;     ///< Free on the device.
  std::size_t capacity = 0;
};

/// The bytes to commit if they can be had: 0 for the need alone (growth), as much again as is held (geometric), or the
/// whole amount at the first miss (preallocate; a full preallocation grows on demand).
std::size_t growth_wish_bytes(const Options& options, const GrowthFacts& facts) noexcept;

/// Whether small blocks get ranges of their own; one preallocation is for blocks of all sizes, and so is a plan.
constexpr bool separates_small_ranges(Strategy strategy) noexcept {
  return strategy != Strategy::kPreallocate && strategy != Strategy::kPlan;
}

/// What several large blocks share, from a source of shared segments.
inline constexpr std::size_t kSharedSegmentBytes = 32 * kMiB;

/// From such a source: the least segment for a large block that needs `bytes`. No other pair of numbers beats PyTorch's
/// reserved memory and its calls on as many of the nine traces.
constexpr std::size_t least_segment_bytes(std::size_t bytes) noexcept {
  return bytes < 20 * kMiB ? kSharedSegmentBytes : bytes;
}

/// Remap: decommit idle granules elsewhere and commit them where the need is, so that reserved does not rise. Only
/// where much lies idle: a miss creates as long as no more is reserved than the highest active ever was, and
/// `slack` (a share of that) and kSlackGranules, or one shared segment, on top. What a job needs above its peak to
/// run without source calls is mostly less. A demand that remaps again and again pays source calls in every period;
/// once what was remapped since the last creation passes kBudgetShare times that peak, a miss creates after all. A
/// limit overrides this: what the budget refuses is taken from idle memory by the trim rung.
class RemapPolicy {
 public:
  static constexpr std::size_t kSlackGranules = 8;
  /// Of the peak, where there is no stream order: memory of the host is for others too, and a small job of little of it.
  static constexpr double kMostInGranules = 1.0 / 16;
  static constexpr double kBudgetShare = 8.0;
  /// A miss waits for the device rather than let reserved rise, in a job's first rounds: so often in all.
  static constexpr std::uint64_t kMostWaits = 64;

  /// Segments that go back whole only fit the next need less well: less slack made them come and go in every round.
  static constexpr double kSlackOfSegments = 0.03;

  /// `fences` as those of the allocator: null where there is no stream order.
  RemapPolicy(const Options& options, const SourceTraits& traits, const StreamFences* fences) noexcept
      : slack_(traits.whole_only ? std::max(options.remap_slack, kSlackOfSegments) : options.remap_slack),
        granule_slack_(traits.shared_segments ? kSharedSegmentBytes : kSlackGranules * traits.granule_bytes),
        stream_order_(fences != nullptr) {}

  /// Active bytes were that high. Unlike the peak in the statistics this one is never reset.
  void saw_active(std::size_t bytes) noexcept { peak_active_ = std::max(peak_active_, bytes); }
  /// How much of that many reserved bytes should have come from idle memory.
  std::size_t excess_bytes(std::size_t reserved_bytes) const noexcept;
  /// Bytes to take from idle granules for a miss that commits `commit_bytes`, after which `reserved_bytes` would be
  /// reserved if nothing were remapped.
  std::size_t remap_bytes(std::size_t commit_bytes, std::size_t reserved_bytes) noexcept;
  void remapped(std::size_t bytes) noexcept { since_creation_ += bytes; }

 private:
  std::size_t share(double of_peak) const noexcept {
    return static_cast<std::size_t>(of_peak * static_cast<double>(peak_active_));
  }

  const double slack_;
  const std::size_t granule_slack_;
  const bool stream_order_;
  std::size_t peak_active_ = 0;
  std::size_t since_creation_ = 0;
};

}  // namespace cistern
