#include "cistern/core/growth_policy.hpp"

#include <algorithm>

namespace cistern {

std::size_t growth_wish_bytes(const Options& options, const GrowthFacts& facts) noexcept {
  switch (options.strategy) {
    case Strategy::kGrowth:
    case Strategy::kPlan:
      return 0;
    case Strategy::kGeometric:
      return facts.held_of_kind;
    case Strategy::kPreallocate: {
      if (facts.preallocated != 0) return 0;
      const std::size_t asked = options.preallocate.resolve(facts.capacity);
      const std::size_t spare = facts.available - std::min(facts.available, options.headroom_bytes);
      return asked != 0 ? asked : std::min(facts.limit, spare);
    }
  }
  return 0;
}

std::size_t RemapPolicy::remap_bytes(std::size_t commit_bytes, std::size_t free_bytes,
                                     std::size_t peak_active) noexcept {
  if (slack_ >= 1.0) return 0;
  const auto slack_bytes = static_cast<std::size_t>(slack_ * static_cast<double>(peak_active));
  if (free_bytes <= slack_bytes) return 0;
  const std::size_t wanted = std::min(commit_bytes, free_bytes - slack_bytes);
  if (since_creation_ + wanted > static_cast<std::size_t>(kBudgetShare * static_cast<double>(peak_active))) {
    since_creation_ = 0;
    return 0;
  }
  return wanted;
}

}  // namespace cistern
