// Rung 4: how much to ask of the source, from wish down to need, and from where.
#include <algorithm>
#include <bit>
#include <new>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {
namespace {

/// Gives a claim back unless it was finished, whatever ends the attempt: a refusal, the host without memory, a fault of
/// the driver.
class ClaimGuard {
 public:
  ClaimGuard(Heap& heap, const Claim& claim) noexcept : heap_(heap), claim_(&claim) {}
  ~ClaimGuard() {
    if (claim_ == nullptr || CISTERN_MUTANT(I12_claim_not_cancelled)) return;
    const std::scoped_lock lock(heap_.lock());
    heap_.cancel(*claim_);
  }
  ClaimGuard(const ClaimGuard&) = delete;
  ClaimGuard& operator=(const ClaimGuard&) = delete;
  void finished() noexcept { claim_ = nullptr; }

 private:
  Heap& heap_;
  const Claim* claim_;
};

/// A part of the budget, given back unless the memory it was claimed for is there.
class BudgetClaim {
 public:
  BudgetClaim(Budget& budget, std::size_t bytes) noexcept
      : budget_(budget), bytes_(bytes), claimed_(budget.claim(bytes)) {}
  ~BudgetClaim() {
    if (claimed_ && !CISTERN_MUTANT(I12_budget_not_refunded)) budget_.refund(bytes_);
  }
  BudgetClaim(const BudgetClaim&) = delete;
  BudgetClaim& operator=(const BudgetClaim&) = delete;
  /// Nothing at all may be claimed too: what was freed meanwhile may be enough.
  explicit operator bool() const noexcept { return claimed_; }
  void spent() noexcept { claimed_ = false; }

 private:
  Budget& budget_;
  const std::size_t bytes_;
  bool claimed_;
};

/// enter() puts into our tables what the source already gave, or asks it for more; if that throws, undo() comes first.
template <class Enter, class Undo>
void enter_or_undo(Enter enter, Undo undo) {
  try {
    enter();
  } catch (...) {
    if (!CISTERN_MUTANT(I12_range_leaked)) undo();
    throw;
  }
}

}  // namespace

void CachingAllocator::set_strategy(Strategy strategy) {
  const std::scoped_lock growth(growth_mutex_);
  if (strategy == options_.strategy) return;
  options_.strategy = strategy;
  preallocated_bytes_ = 0;
  // Ranges there already stay what they are, and so does what later ones are for.
  if (heaps_.empty()) rules_.separate_small_ranges = separates_small_ranges(strategy);
}

void CachingAllocator::set_headroom(std::size_t headroom_bytes) {
  const std::scoped_lock growth(growth_mutex_);
  options_.headroom_bytes = headroom_bytes;
}

RangeKind CachingAllocator::kind_for(const Need& need) const noexcept {
  return need.small && rules_.separate_small_ranges ? RangeKind::kSmall : RangeKind::kLarge;
}

bool CachingAllocator::preallocates(const Heap& heap, const Need& need) const {
  // It is for everybody: neither for one pool, nor for a range of small blocks only.
  return options_.strategy == Strategy::kPreallocate && preallocated_bytes_ == 0 && heap.pool == PoolId{} &&
         !(need.small && rules_.separate_small_ranges);
}

std::size_t CachingAllocator::wish_bytes(const Heap& heap, const Need& need) const {
  if (options_.strategy == Strategy::kPreallocate && !preallocates(heap, need)) return 0;
  GrowthFacts facts;
  {
    const std::scoped_lock lock(heap.lock());
    facts.held_of_kind = heap.committed_bytes(need.block_class);
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
    const std::size_t hole_bytes = claim->hole_bytes;
    const Refusal refusal = back_claim(heap, need, *claim, wished ? Remapping::kNo : Remapping::kYes);
    if (refusal == Refusal::kNone) {
      if (preallocates(heap, need)) preallocated_bytes_ = hole_bytes;
      return true;
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

CachingAllocator::Refusal CachingAllocator::back_claim(Heap& heap, const Need& need, const Claim& claim,
                                                       Remapping remapping) {
  ClaimGuard guard(heap, claim);
  if (remapping == Remapping::kYes) remap_for(heap, need, claim.hole_bytes);
  BudgetClaim budget(heap.budget, claim.hole_bytes);
  if (!budget) return Refusal::kLimit;
  if (!commit_claim(heap, claim)) return Refusal::kSource;
  budget.spent();
  guard.finished();
  return Refusal::kNone;
}

bool CachingAllocator::commit_claim(Heap& heap, const Claim& claim) {
  std::size_t done = 0;
  const auto roll_back = [&] {
    while (done-- > 0) {
      if (!claim.pieces[done].hole || CISTERN_MUTANT(I12_half_a_commit_kept)) continue;
      ++source_calls_.decommit;
      source_.decommit(claim.range.id, claim.pieces[done].offset, claim.pieces[done].bytes);
    }
  };
  for (; done < claim.pieces.size(); ++done) {
    const Claim::Piece& piece = claim.pieces[done];
    if (!piece.hole) continue;
    ++source_calls_.commit;
    std::size_t committed = 0;
    enter_or_undo([&] { committed = source_.commit(claim.range.id, piece.offset, piece.bytes); }, roll_back);
    if (committed == piece.bytes) continue;
    ++source_calls_.refused;
    roll_back();
    return false;
  }
  ledger_.with_all_locked([&] {
    const bool first_memory = heap.range(claim.range_slot).committed_bytes == 0;
    heap.finish_commit(claim);
    ledger_.reserved_in(heap.class_of(claim), claim.hole_bytes, first_memory ? 1 : 0);
  });
  return true;
}

bool CachingAllocator::reserve_range(Heap& heap, const Need& need) {
  const std::size_t granule = rules_.granule_bytes;
  const std::size_t least = round_up(need.span_bytes(rules_.least_block_bytes), granule);
  const std::size_t step = round_up(source_.traits().range_step_bytes, granule);
  // Room beside the need: where it was, the next that is larger finds memory, and only the rest has to move there.
  const std::size_t roomy = round_up(std::bit_ceil(least), granule);
  for (std::size_t bytes = std::max({roomy, step, wish_bytes(heap, need)});;  // a wish grows within one range
       bytes = std::max(least, round_up(bytes / 2, granule))) {
    if (reserve_bytes(heap, bytes, kind_for(need))) return true;
    if (bytes == least) return false;
  }
}

bool CachingAllocator::reserve_bytes(Heap& heap, std::size_t bytes, RangeKind kind) {
  ++source_calls_.reserve;
  const auto range = source_.reserve(bytes);
  if (!range) {
    ++source_calls_.refused;
    return false;
  }
  const auto give_back = [&] {
    ++source_calls_.unreserve;
    source_.unreserve(range->id);
  };
  enter_or_undo([&] { addresses_.add(range->address, range->bytes, &heap); }, give_back);
  enter_or_undo(
      [&] {
        const std::scoped_lock lock(heap.lock());
        heap.add_range(*range, kind, false);
      },
      [&] {
        addresses_.remove(range->address, range->bytes);
        give_back();
      });
  return true;
}

bool CachingAllocator::commit_whole(Heap& heap, const Need& need, Grower& grower) {
  const std::size_t granule = rules_.granule_bytes;
  const std::size_t least = round_up(need.span_bytes(rules_.least_block_bytes), granule);
  const std::size_t wish = std::max(wish_bytes(heap, need), least);
  const bool shared = source_.traits().shared_segments;
  std::size_t bytes = shared && kind_for(need) == RangeKind::kLarge ? std::max(wish, least_segment_bytes(least)) : wish;
  if (shared && wish == least) remap_for(heap, need, bytes);
  for (;; bytes = bytes > wish ? wish : std::max(least, round_down(bytes - bytes / 8, granule))) {
    const Refusal refusal = take_whole(heap, bytes, kind_for(need));
    if (refusal == Refusal::kNone) {
      if (preallocates(heap, need)) preallocated_bytes_ = bytes;
      return true;
    }
    if (bytes == least) {
      grower = {refusal, least};
      return false;
    }
  }
}

CachingAllocator::Refusal CachingAllocator::take_whole(Heap& heap, std::size_t bytes, RangeKind kind) {
  BudgetClaim budget(heap.budget, bytes);
  if (!budget) return Refusal::kLimit;
  if (!take_segment(heap, bytes, kind)) return Refusal::kSource;
  budget.spent();
  return Refusal::kNone;
}

bool CachingAllocator::take_segment(Heap& heap, std::size_t bytes, RangeKind kind) {
  ++source_calls_.reserve;
  const auto range = source_.reserve(bytes);
  if (!range) {
    ++source_calls_.refused;
    return false;
  }
  const auto unreserve = [&] {
    ++source_calls_.unreserve;
    source_.unreserve(range->id);
  };
  ++source_calls_.commit;
  std::size_t committed = 0;
  enter_or_undo([&] { committed = source_.commit(range->id, 0, bytes); }, unreserve);
  if (committed != bytes) {
    ++source_calls_.refused;
    unreserve();
    return false;
  }
  const auto give_back = [&] {
    ++source_calls_.decommit;
    source_.decommit(range->id, 0, bytes);
    unreserve();
  };
  enter_or_undo([&] { addresses_.add(range->address, bytes, &heap); }, give_back);
  enter_or_undo(
      [&] {
        ledger_.with_all_locked([&] {
          heap.add_range(*range, kind, true);
          ledger_.reserved_in(kind == RangeKind::kSmall ? kSmallBlocks : kLargeBlocks, bytes, 1);
        });
      },
      [&] {
        addresses_.remove(range->address, bytes);
        give_back();
      });
  return true;
}

CachingAllocator::Waiting CachingAllocator::patience() const noexcept {
  const SourceTraits& traits = source_.traits();
  const bool worth_it = !traits.whole_only || traits.shared_segments;
  return worth_it && owner_wait_count_ < RemapPolicy::kMostWaits ? Waiting::kYes : Waiting::kNo;
}

std::size_t CachingAllocator::reserved_after(const Need& need, std::size_t commit_bytes) {
  return ledger_.with_all_locked([&] {
    const std::size_t active = ledger_.current(kActiveBytes) + need.granted_bytes;
    remap_.saw_active(std::max<std::size_t>(ledger_.peak(kActiveBytes), active));
    return ledger_.reserved_bytes() + commit_bytes;
  });
}

bool CachingAllocator::take_over_range(Heap& heap, const Need& need) {
  const std::size_t least = round_up(need.span_bytes(rules_.least_block_bytes), rules_.granule_bytes);
  if (fences_ == nullptr || held(heap) || remap_.excess_bytes(reserved_after(need, least)) == 0) return false;
  for (const Waiting waiting : {Waiting::kNo, patience()}) {
    for (const auto& other : heaps_) {
      if (other.get() == &heap || other->pool != heap.pool) continue;
      reap_heap(*other);
      {
        const std::scoped_lock lock(other->lock());
        other->end_rest();
        if (!other->find_vacant_range(need, ~std::uint64_t{0})) continue;
      }
      const std::uint64_t idle = idle_frees(*other, waiting);
      const bool taken = ledger_.with_all_locked([&] {
        const std::optional<std::uint32_t> slot = other->find_vacant_range(need, idle);
        if (!slot) return false;
        const SourceRange range = other->range(*slot).source;
        heap.adopt_range(*other, *slot);
        addresses_.change(range.address, range.bytes, &heap);
        return true;
      });
      if (taken) return true;
    }
  }
  return false;
}

void CachingAllocator::remap_for(Heap& heap, const Need& need, std::size_t commit_bytes) {
  if (planned_ != nullptr && planned_->followed() && budget_.claimed() + commit_bytes <= planned_->bytes()) return;
  const std::size_t wanted = remap_.remap_bytes(commit_bytes, reserved_after(need, commit_bytes));
  if (wanted == 0) return;
  const std::size_t remapped = decommit_idle(wanted, &heap.pool, patience(), &heap);
  remap_.remapped(remapped);
  source_calls_.remapped_bytes += remapped;
}

}  // namespace cistern
