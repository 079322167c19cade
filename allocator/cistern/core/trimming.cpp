// Giving memory back: what is idle under promise I13, and how much of it.
#include <algorithm>
#include <limits>
#include <new>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {

std::uint64_t CachingAllocator::idle_frees(Heap& heap, Waiting waiting) {
  if (fences_ == nullptr || CISTERN_MUTANT(I13_free_taken_for_idle)) return std::numeric_limits<std::uint64_t>::max();
  OwnerFence& owner = owner_fences_[heap.number];
  std::uint64_t frees = 0;
  {
    const std::scoped_lock lock(heap.lock());
    frees = heap.end_epoch();
  }
  for (;;) {
    if (!owner.open) {
      if (owner.idle_frees == frees) return frees;
      owner.fence = fences_->record(heap.stream);
      if (owner.fence == kNoFence) return owner.idle_frees;
      owner.covers = frees;
      owner.open = true;
      const std::scoped_lock lock(heap.lock());
      heap.log(EventKind::kFenceRecorded, 0, 0, 0, heap.stream, owner.fence);
    }
    const FenceState state = fences_->query(owner.fence);
    if (state != FenceState::kDone && !CISTERN_MUTANT(I13_fence_not_awaited)) {
      if (waiting == Waiting::kNo || state == FenceState::kCannotAskNow) return owner.idle_frees;
      ++owner_wait_count_;
      fences_->wait(owner.fence);
    }
    {
      const std::scoped_lock lock(heap.lock());
      heap.log(EventKind::kFenceDone, 0, 0, 0, heap.stream, owner.fence);
    }
    fences_->release(owner.fence);
    owner.open = false;
    owner.idle_frees = CISTERN_MUTANT(I13_fence_covers_later_frees) ? frees : owner.covers;
  }
}

std::size_t CachingAllocator::decommit_idle(std::size_t bytes, const PoolId* pool, Waiting waiting, Heap* first) {
  std::size_t given = 0;
  const auto from = [&](Heap& heap, Waiting patience) {
    if (given >= bytes || (pool != nullptr && heap.pool != *pool)) return;
    if (held(heap) && !CISTERN_MUTANT(I13_held_pool_trimmed)) return;
    given += decommit_from(heap, bytes - given, idle_frees(heap, patience));
  };
  const auto from_all = [&](Waiting patience) {
    if (first != nullptr) from(*first, patience);
    for (const auto& heap : heaps_) {
      if (heap.get() != first) from(*heap, patience);
    }
  };
  from_all(Waiting::kNo);  // granules whose fence is done go first
  if (waiting == Waiting::kYes && fences_ != nullptr) from_all(Waiting::kYes);
  return given;
}

std::size_t CachingAllocator::decommit_from(Heap& heap, std::size_t bytes, std::uint64_t idle) {
  std::size_t given = 0;
  while (given < bytes) {
    std::optional<Claim> claim;
    {
      const std::scoped_lock lock(heap.lock());
      claim = heap.claim_idle(bytes - given, idle, source_.traits().whole_only);
    }
    if (!claim) break;
    given += claim->free_bytes;
    decommit_claim(heap, *claim);
  }
  return given;
}

void CachingAllocator::decommit_claim(Heap& heap, const Claim& claim) {
  const bool whole = source_.traits().whole_only;
  ++source_calls_.decommit;
  source_.decommit(claim.range.id, claim.pieces.front().offset, claim.free_bytes);
  ledger_.with_all_locked([&] {
    heap.finish_decommit(claim);
    const bool last_memory = heap.range(claim.range_slot).committed_bytes == 0;
    ledger_.reserved_out(heap.class_of(claim), claim.free_bytes, last_memory ? 1 : 0);
    if (whole) heap.remove_range(claim.range_slot);
  });
  if (whole) {
    addresses_.remove(claim.range.address, claim.range.bytes);
    ++source_calls_.unreserve;
    source_.unreserve(claim.range.id);
  }
  if (!CISTERN_MUTANT(I11_trim_not_refunded)) heap.budget.refund(claim.free_bytes);
}

std::size_t CachingAllocator::trim_to(std::size_t keep_bytes, Budget& budget, const PoolId* pool) {
  for (const auto& heap : heaps_) reap_heap(*heap);
  std::size_t given = 0;
  const auto give = [&] {
    const std::size_t claimed = budget.claimed();
    const Waiting waiting = CISTERN_MUTANT(I10_trim_does_not_wait) ? Waiting::kNo : Waiting::kYes;
    if (claimed > keep_bytes) given += decommit_idle(claimed - keep_bytes, pool, waiting);
  };
  give();
  if (fences_ != nullptr && budget.claimed() > keep_bytes) {
    wait_for_all_fences();
    give();
  }
  return given;
}

std::size_t CachingAllocator::trim(std::size_t keep_bytes) {
  const std::scoped_lock growth(growth_mutex_);
  const std::size_t kept = CISTERN_MUTANT(I10_preallocation_not_kept) ? 0 : preallocated_bytes_;
  return trim_to(std::max(keep_bytes, kept), budget_, nullptr);
}

std::size_t CachingAllocator::trim_pool(PoolId pool, std::size_t keep_bytes) {
  const std::scoped_lock growth(growth_mutex_);
  return trim_to(keep_bytes, budget_of(pool), &pool);
}

void CachingAllocator::trim_above_high_water(Heap& heap) {
  // A free never waits for a source call of another thread, and does not fail for want of host memory: whatever is in
  // the way, the next free may try again.
  const std::unique_lock growth(growth_mutex_, std::try_to_lock);
  const std::size_t claimed = budget_.claimed();
  if (!growth.owns_lock() || claimed <= options_.high_water_bytes) return;
  try {
    decommit_idle(claimed - options_.high_water_bytes, nullptr, Waiting::kNo, &heap);
  } catch (const std::bad_alloc&) {
  }
}

std::size_t CachingAllocator::tick() {
  const std::scoped_lock growth(growth_mutex_);
  std::size_t given = 0;
  for (const auto& heap : heaps_) {
    reap_heap(*heap);
    OwnerFence& owner = owner_fences_[heap->number];
    const std::uint64_t idle = std::min(idle_frees(*heap, Waiting::kNo), owner.ticked);
    const std::size_t claimed = budget_.claimed();
    if (claimed > preallocated_bytes_ && !held(*heap)) given += decommit_from(*heap, claimed - preallocated_bytes_, idle);
    const std::scoped_lock lock(heap->lock());
    owner.ticked = heap->end_epoch();
  }
  return given;
}

Result<std::size_t, Failure> CachingAllocator::set_limit(std::size_t limit_bytes, PoolId pool) {
  const std::scoped_lock growth(growth_mutex_);
  Budget& budget = budget_of(pool);
  trim_to(limit_bytes, budget, pool.value == 0 ? nullptr : &pool);
  if (!budget.set_limit(limit_bytes)) return in_use_failure(limit_bytes, budget);
  log_device(EventKind::kLimit, limit_bytes, pool);
  return limit_bytes;
}

void CachingAllocator::clear_limit(PoolId pool) { set_limit(kNoLimit, pool); }

std::size_t CachingAllocator::limit_bytes(PoolId pool) const {
  if (pool.value == 0) return budget_.limit();
  const std::scoped_lock growth(growth_mutex_);
  return budget_of(pool).limit();
}

}  // namespace cistern
