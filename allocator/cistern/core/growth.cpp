// Rung 4: how much to ask of the source, from wish down to need, and from where.
#include <algorithm>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {

std::size_t CachingAllocator::wish_bytes(const Heap& heap, const Need& need) const {
  GrowthFacts facts;
  {
    const std::scoped_lock lock(heap.lock());
    facts.held_of_kind = heap.committed_bytes(need.small && rules_.separate_small_ranges);
  }
  facts.preallocated = preallocated_bytes_;
  facts.limit = budget_.limit();
  facts.available = options_.strategy == Strategy::kPreallocate ? source_.available_bytes() : 0;
  facts.capacity = source_.traits().capacity_bytes;
  const std::size_t wish = growth_wish_bytes(options_, facts);
  return round_down(std::min(wish, heap.budget.headroom()), rules_.granule_bytes);
}

bool CachingAllocator::commit_for(Heap& heap, const Need& need, Grower& grower) {
  const std::size_t granule = rules_.granule_bytes;
  const std::size_t least = round_up(need.span_bytes(rules_.least_block_bytes), granule);
  if (source_.traits().whole_only) return commit_whole(heap, need, grower);
  std::size_t wish = wish_bytes(heap, need);
  for (;;) {
    std::optional<Claim> claim;
    {
      const std::scoped_lock lock(heap.lock());
      claim = heap.claim_growth(need, wish);
    }
    if (!claim) {
      if (reserve_range(heap, need)) continue;
      grower = {Refusal::kSource, least};
      return false;
    }
    const bool wished = claim->hole_bytes > least;
    if (!wished) remap_for(heap, need, claim->hole_bytes);
    const std::size_t hole_bytes = claim->hole_bytes;
    Refusal refusal = Refusal::kNone;
    if (!heap.budget.claim(hole_bytes)) {
      refusal = Refusal::kLimit;
    } else if (!commit_claim(heap, *claim)) {
      heap.budget.refund(hole_bytes);
      refusal = Refusal::kSource;
    }
    if (refusal == Refusal::kNone) {
      if (options_.strategy == Strategy::kPreallocate && preallocated_bytes_ == 0) preallocated_bytes_ = hole_bytes;
      return true;
    }
    {
      const std::scoped_lock lock(heap.lock());
      heap.cancel(*claim);
    }
    if (!wished) {
      grower = {refusal, hole_bytes};
      return false;
    }
    // The driver has less than the wish: step down to the need by eighths.
    wish = round_down(wish - wish / 8, granule);
    if (wish <= least + granule) wish = 0;
  }
}

bool CachingAllocator::commit_claim(Heap& heap, const Claim& claim) {
  std::size_t done = 0;
  for (; done < claim.pieces.size(); ++done) {
    const Claim::Piece& piece = claim.pieces[done];
    if (!piece.hole) continue;
    ++source_calls_.commit;
    if (source_.commit(claim.range.id, piece.offset, piece.bytes) == piece.bytes) continue;
    ++source_calls_.refused;
    while (done-- > 0) {
      if (!claim.pieces[done].hole) continue;
      ++source_calls_.decommit;
      source_.decommit(claim.range.id, claim.pieces[done].offset, claim.pieces[done].bytes);
    }
    return false;
  }
  ledger_.with_all_locked([&] {
    const bool first_memory = heap.range(claim.range_slot).committed_bytes == 0;
    heap.finish_commit(claim);
    ledger_.reserved_in(claim.hole_bytes, first_memory ? 1 : 0);
  });
  return true;
}

bool CachingAllocator::reserve_range(Heap& heap, const Need& need) {
  const std::size_t granule = rules_.granule_bytes;
  const std::size_t least = round_up(need.span_bytes(rules_.least_block_bytes), granule);
  const bool small = need.small && rules_.separate_small_ranges;
  for (std::size_t bytes = std::max(least, round_up(source_.traits().range_step_bytes, granule));;
       bytes = std::max(least, round_up(bytes / 2, granule))) {
    ++source_calls_.reserve;
    if (const auto range = source_.reserve(bytes)) {
      addresses_.add(range->address, range->bytes, &heap);
      const std::scoped_lock lock(heap.lock());
      heap.add_range(*range, small, false);
      return true;
    }
    ++source_calls_.refused;
    if (bytes == least) return false;
  }
}

bool CachingAllocator::commit_whole(Heap& heap, const Need& need, Grower& grower) {
  const std::size_t granule = rules_.granule_bytes;
  const std::size_t least = round_up(need.span_bytes(rules_.least_block_bytes), granule);
  for (std::size_t bytes = std::max(wish_bytes(heap, need), least);;
       bytes = std::max(least, round_down(bytes - bytes / 8, granule))) {
    Refusal refusal = Refusal::kLimit;
    if (heap.budget.claim(bytes)) {
      refusal = Refusal::kSource;
      ++source_calls_.reserve;
      if (const auto range = source_.reserve(bytes)) {
        ++source_calls_.commit;
        if (source_.commit(range->id, 0, bytes) == bytes) {
          addresses_.add(range->address, range->bytes, &heap);
          ledger_.with_all_locked([&] {
            heap.add_range(*range, need.small && rules_.separate_small_ranges, true);
            ledger_.reserved_in(bytes, 1);
          });
          if (options_.strategy == Strategy::kPreallocate && preallocated_bytes_ == 0) preallocated_bytes_ = bytes;
          return true;
        }
        source_.unreserve(range->id);
      }
      ++source_calls_.refused;
      heap.budget.refund(bytes);
    }
    if (bytes == least) {
      grower = {refusal, least};
      return false;
    }
  }
}

void CachingAllocator::remap_for(Heap& heap, const Need& need, std::size_t commit_bytes) {
  std::size_t free_bytes = 0;
  std::size_t peak_active = 0;
  ledger_.with_all_locked([&] {
    const std::size_t active = ledger_.current(kActiveBytes) + need.granted_bytes;
    peak_active = std::max<std::size_t>(ledger_.peak(kActiveBytes), active);
    const std::size_t reserved = ledger_.reserved_bytes() + commit_bytes;
    free_bytes = reserved - std::min(reserved, active);
  });
  const std::size_t wanted = remap_.remap_bytes(commit_bytes, free_bytes, peak_active);
  if (wanted == 0) return;
  const std::size_t remapped = decommit_idle(wanted, &heap.pool, Waiting::kNo, &heap);
  remap_.remapped(remapped);
  source_calls_.remapped_bytes += remapped;
}

}  // namespace cistern
