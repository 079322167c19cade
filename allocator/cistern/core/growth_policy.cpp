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

std::size_t RemapPolicy::excess_bytes(std::size_t reserved_bytes) const noexcept {
  if (slack_ >= 1.0) return 0;
  const std::size_t granules = stream_order_ ? granule_slack_ : std::min(granule_slack_, share(kMostInGranules));
  const std::size_t without_remap = share(1.0 + slack_) + granules;
  return reserved_bytes - std::min(reserved_bytes, without_remap);
}

std::size_t RemapPolicy::remap_bytes(std::size_t commit_bytes, std::size_t reserved_bytes) noexcept {
  const std::size_t wanted = std::min(commit_bytes, excess_bytes(reserved_bytes));
  if (since_creation_ + wanted <= share(kBudgetShare)) return wanted;
  since_creation_ = 0;
  return 0;
}

}  // namespace cistern
