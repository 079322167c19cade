// On a miss: how much to ask for beyond the need, and how much of it to take from idle granules elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cistern/core/config.hpp"

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

/// Remap: decommit idle granules elsewhere and commit them where the need is, so that reserved does not rise. Worth it
/// only where memory lies idle: up to `slack` (a share of peak active) a miss creates.
/// A demand that remaps again and again pays source calls in every period; once what was remapped since the last
/// creation passes kBudgetShare times peak active, a miss creates after all, and the period needs no remap any more. A
/// limit overrides this: what the budget refuses is taken from idle memory by the trim rung.
/// Measured on the nine traces: without the budget at most 9 % of peak active is remapped in all, so it costs nothing
/// there.
class RemapPolicy {
 public:
  static constexpr double kBudgetShare = 2.0;

  explicit RemapPolicy(const Options& options) noexcept : slack_(options.remap_slack) {}

  /// Bytes to take from idle granules for a miss that commits `commit_bytes`. `free_bytes` would be reserved and not
  /// active after it if nothing were remapped.
  std::size_t remap_bytes(std::size_t commit_bytes, std::size_t free_bytes, std::size_t peak_active) noexcept;
  void remapped(std::size_t bytes) noexcept { since_creation_ += bytes; }

 private:
  const double slack_;
  std::size_t since_creation_ = 0;
};

}  // namespace cistern
