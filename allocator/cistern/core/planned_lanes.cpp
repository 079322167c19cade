#include "cistern/core/planned_lanes.hpp"

#include <algorithm>
#include <tuple>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {

const Range* PlannedLane::range(const Heap& of) noexcept {
  const auto ours = [&](std::uint32_t slot) {
    return slot < of.range_count() && of.range(slot).border != kNoBlock && of.range(slot).planned;
  };
  for (std::uint32_t slot = 0; !ours(slot_) && slot < of.range_count(); ++slot) slot_ = slot;
  return ours(slot_) ? &of.range(slot_) : nullptr;
}

PlaceState PlannedLane::look_at(Heap& of, std::uint32_t place, const Need& need) noexcept {
  const Range& planned = of.range(slot_);
  const Address base = planned.source.address;
  PlaceState state;
  state.address = base + cursor.offset(place);
  if (state.address % need.alignment != 0 && !CISTERN_MUTANT(I7_planned_alignment_not_looked_at)) return state;
  // Up from the nearest live block of the plan.
  state.block = of.first_block(slot_);
  for (auto below = taken_.largest_up_to(place); below; below = taken_.largest_up_to(place)) {
    const BlockIndex live = of.find_live(base + cursor.offset(*below)).block;
    if (live != kNoBlock) {
      state.block = live;
      break;
    }
    taken_.erase(*below);
  }
  const auto end_of = [&](BlockIndex index) { return of.block(index).address() + of.block(index).bytes(); };
  while (end_of(state.block) <= state.address) state.block = of.block(state.block).next;
  state.kind = PlaceState::Kind::kFree;
  for (BlockIndex index = state.block;; index = of.block(index).next) {
    if (index == kNoBlock) return {};
    const bool hole = of.block(index).state() == BlockState::kHole;
    if (!hole && of.block(index).state() != BlockState::kFree) return {};
    if (hole) state.kind = PlaceState::Kind::kLacksMemory;
    if (end_of(index) >= state.address + need.granted_bytes) return state;
    if (CISTERN_MUTANT(I1_planned_place_half_looked_at)) return state;
  }
}

PlannedLanes::PlannedLanes(const Plan& plan, const HeapRules& rules) {
  CISTERN_CHECK_EQ(what_is_wrong(plan).has_value(), false);
  CISTERN_CHECK_LE(rules.least_block_bytes, plan.unit_bytes);
  for (const PlanLane& lane : plan.lanes) {
    lanes_.push_back(std::make_unique<PlannedLane>(lane, rules.least_block_bytes));
    bytes_ += round_up(lane.height_bytes, rules.granule_bytes);
  }
  std::sort(lanes_.begin(), lanes_.end(), [](const auto& a, const auto& b) {
    return std::tie(a->pool.value, a->stream.value) < std::tie(b->pool.value, b->stream.value);
  });
}

PlannedLane* PlannedLanes::find(PoolId pool, StreamId stream) const noexcept {
  const auto found =
      std::lower_bound(lanes_.begin(), lanes_.end(), std::tie(pool.value, stream.value),
                       [](const auto& lane, const auto& wanted) {
                         return std::tie(lane->pool.value, lane->stream.value) < wanted;
                       });
  if (found == lanes_.end() || (*found)->pool != pool || (*found)->stream != stream) return nullptr;
  return found->get();
}

}  // namespace cistern
