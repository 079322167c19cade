// The strategy `plan`: each request that the plan expects gets the very place that was computed for it.
#include <algorithm>

#include "cistern/base/mutant.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {

PlannedLane* CachingAllocator::lane_of(const Request& request) const noexcept {
  return planned_ == nullptr ? nullptr : planned_->find(request.pool, request.stream);
}

CachingAllocator::PlaceOutcome CachingAllocator::take_place(PlannedLane& lane, Heap& heap, std::uint32_t place,
                                                            const Need& need, Address& address) {
  heap.end_rest();
  if (lane.range(heap) == nullptr) return PlaceOutcome::kWantsMemory;
  const PlaceState state = lane.look_at(heap, place, need);
  if (state.kind == PlaceState::Kind::kTaken) return PlaceOutcome::kNotToBeHad;
  if (state.kind == PlaceState::Kind::kLacksMemory) return PlaceOutcome::kWantsMemory;
  if (!heap.has_room() || !heap.admits(need)) return PlaceOutcome::kWantsLedger;
  address = heap.take_at(state.block, state.address, need);
  heap.end_rest();  // find() would not find it there
  lane.take(place);
  return PlaceOutcome::kTaken;
}

CachingAllocator::Served CachingAllocator::serve_planned(PlannedLane& lane, Heap& heap, const Need& need) {
  std::optional<std::uint32_t> place;
  PlaceOutcome outcome = PlaceOutcome::kNotToBeHad;
  Address address = 0;
  bool events_due = false;
  {
    const std::scoped_lock lock(heap.lock());
    place = lane.cursor.next(need.granted_bytes);
    if (!place) {
      planned_->deviated();
      return std::nullopt;
    }
    outcome = take_place(lane, heap, *place, need, address);
    events_due = heap.events().due();
  }
  if (outcome == PlaceOutcome::kNotToBeHad) {
    planned_->deviated();
    return std::nullopt;
  }
  if (outcome != PlaceOutcome::kTaken) return grow_planned(lane, heap, *place, need);
  after_operation(heap, events_due);
  return Allocation{address, need.requested_bytes, need.granted_bytes};
}

CachingAllocator::Served CachingAllocator::grow_planned(PlannedLane& lane, Heap& heap, std::uint32_t place,
                                                        const Need& need) {
  const std::scoped_lock growth(growth_mutex_);
  for (bool grown = false;; grown = true) {
    PlaceOutcome outcome = PlaceOutcome::kNotToBeHad;
    Address address = 0;
    bool events_due = false;
    ledger_.with_all_locked([&] {
      heap.make_room();
      outcome = take_place(lane, heap, place, need, address);
      if (outcome == PlaceOutcome::kWantsLedger) {
        ledger_.admit(heap, need);
        outcome = take_place(lane, heap, place, need, address);
      }
      events_due = heap.events().due();
    });
    if (outcome == PlaceOutcome::kTaken) {
      if (grown) served_[static_cast<std::size_t>(Rung::kGrow)].fetch_add(1, std::memory_order_relaxed);
      after_operation(heap, events_due);
      return Allocation{address, need.requested_bytes, need.granted_bytes};
    }
    if (outcome != PlaceOutcome::kWantsMemory || !commit_place(lane, heap, place, need)) return std::nullopt;
  }
}

bool CachingAllocator::commit_place(PlannedLane& lane, Heap& heap, std::uint32_t place, const Need& need) {
  std::optional<Claim> claim;
  bool has_range = false;
  {
    const std::scoped_lock lock(heap.lock());
    has_range = lane.range(heap) != nullptr;
    if (has_range) {
      if (!planned_->followed() && heap.find(need) != kNoBlock) return false;
      const PlaceState state = lane.look_at(heap, place, need);
      if (state.kind != PlaceState::Kind::kLacksMemory) return state.kind == PlaceState::Kind::kFree;
      claim = heap.claim_place(state.block, state.address, need.granted_bytes);
    }
  }
  return has_range ? back_claim(heap, need, *claim, Remapping::kYes) == Refusal::kNone : reserve_planned(lane, heap);
}

bool CachingAllocator::reserve_planned(PlannedLane& lane, Heap& heap) {
  if (lane.refused) return false;
  const std::size_t bytes = round_up(lane.height_bytes, rules_.granule_bytes);
  const bool whole = source_.traits().whole_only;
  lane.refused = whole ? take_whole(heap, bytes, RangeKind::kPlanned) != Refusal::kNone
                       : !reserve_bytes(heap, bytes, RangeKind::kPlanned);
  return !lane.refused;
}

}  // namespace cistern
