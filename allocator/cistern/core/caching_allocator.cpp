#include "cistern/core/caching_allocator.hpp"

#include <algorithm>
#include <new>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {
namespace {

constexpr std::size_t kLargestRequest = std::size_t{1} << 62;

HeapRules rules_for(const Options& options, const SourceTraits& traits, DeviceId device) {
  HeapRules rules;
  rules.least_block_bytes = options.least_block_bytes;
  rules.granule_bytes = traits.granule_bytes;
  rules.small_block_bytes = options.small_block_bytes;
  rules.separate_small_ranges = separates_small_ranges(options.strategy);
  rules.device = device;
  return rules;
}

}  // namespace

CachingAllocator::CachingAllocator(const Options& options, MemorySource& source, StreamFences* fences, DeviceId device,
                                   Budget* shared)
    : options_(options),
      source_(source),
      fences_(fences),
      device_(device),
      rules_(rules_for(options, source.traits(), device)),
      budget_(options.limit ? options.limit->resolve(source.traits().capacity_bytes) : kNoLimit, shared),
      remap_(options, source.traits(), fences) {
  CISTERN_CHECK_LE(rules_.least_block_bytes, rules_.granule_bytes);
  if (options.strategy == Strategy::kPlan && options.plan != nullptr) {
    planned_ = std::make_unique<PlannedLanes>(*options.plan, rules_);
  }
}

CachingAllocator::~CachingAllocator() {
  stop_recording();
  const std::scoped_lock growth(growth_mutex_);
  CISTERN_CHECK_EQ(ledger_.with_all_locked([&] { return ledger_.current(kAllocationCount); }), 0u);
  wait_for_all_fences();
  for (std::size_t i = 0; i < pool_count_; ++i) pools_[i]->holds = 0;
  decommit_idle(kNoLimit, nullptr, Waiting::kYes);
  for (const auto& heap : heaps_) {
    for (std::uint32_t slot = 0; slot < heap->range_count(); ++slot) {
      if (heap->range(slot).border != kNoBlock) source_.unreserve(heap->range(slot).source.id);
    }
  }
}

[[gnu::always_inline]] inline Need CachingAllocator::round(const Request& request) const noexcept {
  CISTERN_CHECK_NE(request.bytes, 0u);
  CISTERN_CHECK_LE(request.alignment, rules_.granule_bytes);
  CISTERN_CHECK_EQ(request.alignment & (request.alignment - 1), 0u);
  Need need;
  need.requested_bytes = request.bytes;
  need.granted_bytes = round_up(std::min(request.bytes, kLargestRequest), rules_.least_block_bytes);
  need.alignment = std::max(request.alignment, rules_.least_block_bytes);
  if (request.pool.value != 0 && pool_of(request.pool).own_granules) [[unlikely]] {
    need.granted_bytes = round_up(need.granted_bytes, rules_.granule_bytes);
    need.alignment = rules_.least_block_bytes;  // all blocks of the pool start on granule borders
  }
  need.small = need.granted_bytes < rules_.small_block_bytes;
  static_assert(kSmallBlocks == 0 && kLargeBlocks == 1);
  need.block_class = 1u - static_cast<std::size_t>(need.small & rules_.separate_small_ranges);
  return need;
}

[[gnu::always_inline]] inline CachingAllocator::Hit CachingAllocator::hit_in(Heap& heap, const Need& need) {
  Address address = 0;
  bool events_due = false;
  {
    const std::scoped_lock lock(heap.lock());
    if (!heap.has_room() || !heap.admits(need)) [[unlikely]] return {0, true};
    if (heap.rests_for(need)) {
      address = heap.retake(need);
    } else {
      const BlockIndex block = heap.find(need);
      if (block == kNoBlock) [[unlikely]] return {0, false};
      address = heap.take(block, need);
    }
    events_due = heap.events().due();
  }
  after_operation(heap, events_due);
  return {address, false};
}

Address CachingAllocator::fit_in(Heap& heap, const Need& need) {
  const Hit hit = hit_in(heap, need);
  return hit.wants_ledger ? take_with_ledger(heap, need, &Heap::find) : hit.address;
}

Address CachingAllocator::allocate_at_once(std::size_t bytes, StreamId stream, PoolId pool) {
  const Need need = round(Request{.bytes = bytes, .stream = stream, .pool = pool});
  Heap* heap = directory_.find(pool, stream);
  return heap == nullptr ? 0 : hit_in(*heap, need).address;
}

Result<Allocation, Failure> CachingAllocator::allocate(const Request& request) {
  const Need need = round(request);
  if (Heap* heap = directory_.find(request.pool, request.stream)) [[likely]] {
    const Address address = hit_in(*heap, need).address;
    if (address != 0) [[likely]] return Allocation{address, need.requested_bytes, need.granted_bytes};
  }
  return miss(request);
}

Result<Allocation, Failure> CachingAllocator::miss(const Request& request) {
  const Need need = round(request);
  try {
    Heap* heap = directory_.find(request.pool, request.stream);
    if (heap == nullptr) {
      PlannedLane* lane = lane_of(request);
      heap = lane != nullptr && lane->heap != nullptr ? lane->heap.load() : heap_for(request);
      if (lane != nullptr) {
        if (const Served served = serve_planned(*lane, *heap, need)) return *served;
      }
    }
    return climb(*heap, need);
  } catch (const std::bad_alloc&) {
    served_[static_cast<std::size_t>(Rung::kFail)].fetch_add(1, std::memory_order_relaxed);
    Failure failure;
    failure.code = FailureCode::kBookkeeping;
    failure.device = device_;
    failure.source = source_.traits().name;
    failure.asked_bytes = request.bytes;
    return failure;
  }
}

Result<Allocation, Failure> CachingAllocator::climb(Heap& heap, const Need& need) {
  const auto serve = [this](Rung rung, const Allocation& allocation) {
    served_[static_cast<std::size_t>(rung)].fetch_add(1, std::memory_order_relaxed);
    return allocation;
  };
  Grower grower;
  const std::size_t most = std::min(heap.budget.tightest_limit(), source_.traits().capacity_bytes);
  if (need.requested_bytes <= kLargestRequest && need.granted_bytes <= most) {
    if (const Served served = fit(heap, need)) return *served;
    if (const Served served = reap(heap, need)) return serve(Rung::kReap, *served);
    const std::scoped_lock growth(growth_mutex_);
    if (const Served served = grow(heap, need, grower)) return serve(Rung::kGrow, *served);
    if (const Served served = trim(heap, need, grower, Waiting::kNo)) return serve(Rung::kTrim, *served);
    if (const Served served = fit_in_other_ranges(heap, need)) return *served;
    if (const Served served = wait(heap, need, grower)) return serve(Rung::kWait, *served);
    if (const Served served = fit_in_other_ranges(heap, need)) return *served;
  }
  served_[static_cast<std::size_t>(Rung::kFail)].fetch_add(1, std::memory_order_relaxed);
  log_device(EventKind::kOutOfMemory, need.requested_bytes);
  return fail(heap, need, grower);
}

CachingAllocator::Served CachingAllocator::fit(Heap& heap, const Need& need) {
  return look(heap, need, &CachingAllocator::fit_in);
}

CachingAllocator::Served CachingAllocator::fit_exactly(Heap& heap, const Need& need) {
  return look(heap, need, &CachingAllocator::fit_exactly_in);
}

CachingAllocator::Served CachingAllocator::fit_in_other_ranges(Heap& heap, const Need& need) {
  if (!rules_.separate_small_ranges) return std::nullopt;
  Need other = need;
  other.small = !need.small;
  other.block_class = need.block_class == kSmallBlocks ? kLargeBlocks : kSmallBlocks;
  return fit_exactly(heap, other);
}

CachingAllocator::Served CachingAllocator::look(Heap& heap, const Need& need, Fit fit_one) {
  Address address = (this->*fit_one)(heap, need);
  // Without stream order a free block may serve anybody: look at the other shards before growing.
  const bool shared = fences_ == nullptr || CISTERN_MUTANT(I8_streams_share);
  for (std::size_t i = 0; address == 0 && shared && i < directory_.count(); ++i) {
    Heap& other = directory_.at(i);
    if (&other != &heap && other.pool == heap.pool) address = (this->*fit_one)(other, need);
  }
  if (address == 0) return std::nullopt;
  return Allocation{address, need.requested_bytes, need.granted_bytes};
}

Address CachingAllocator::fit_exactly_in(Heap& heap, const Need& need) {
  return take_with_ledger(heap, need, &Heap::find_exactly);
}

Address CachingAllocator::take_with_ledger(Heap& heap, const Need& need, Find find_block) {
  bool events_due = false;
  const Address address = ledger_.with_all_locked([&]() -> Address {
    heap.make_room();
    const BlockIndex block = (heap.*find_block)(need);
    if (block == kNoBlock) return 0;
    if (!heap.admits(need)) {
      ledger_.admit(heap, need);
      CISTERN_ASSERT(heap.admits(need));
    }
    const Address taken = heap.take(block, need);
    heap.end_rest();  // find may not find again what find_exactly found
    events_due = heap.events().due();
    return taken;
  });
  if (address != 0) after_operation(heap, events_due);
  return address;
}

CachingAllocator::Served CachingAllocator::reap(Heap& heap, const Need& need) {
  if (fences_ == nullptr) return std::nullopt;
  reap_heap(heap);
  return fit(heap, need);
}

CachingAllocator::Served CachingAllocator::grow(Heap& heap, const Need& need, Grower& grower) {
  for (;;) {
    if (Served served = fit_exactly(heap, need)) return served;
    // A small block rather lies among large ones than have memory moved for it.
    if (need.small && remap_.excess_bytes(reserved_after(need, rules_.granule_bytes)) != 0) {
      if (Served served = fit_in_other_ranges(heap, need)) return served;
    }
    if (take_over_range(heap, need)) continue;
    if (!commit_for(heap, need, grower)) return std::nullopt;
  }
}

CachingAllocator::Served CachingAllocator::trim(Heap& heap, const Need& need, Grower& grower, Waiting waiting) {
  // Under a limit only as much as is lacking, and from the pool whose limit it is; a source that refused gets back
  // everything that is idle. What goes may be free memory that the need counted on: then it lacks that, too.
  for (;;) {
    std::size_t lacking = kNoLimit;
    const PoolId* pool = nullptr;
    if (grower.refusal == Refusal::kLimit) {
      const std::size_t headroom = heap.budget.headroom();
      lacking = grower.need_bytes > headroom ? grower.need_bytes - headroom : 0;
      if (&heap.budget != &budget_ && budget_.headroom() >= grower.need_bytes) pool = &heap.pool;
    }
    if (decommit_idle(lacking, pool, waiting, &heap) == 0) return std::nullopt;
    if (Served served = grow(heap, need, grower)) return served;
  }
}

CachingAllocator::Served CachingAllocator::wait(Heap& heap, const Need& need, Grower& grower) {
  if (fences_ == nullptr) return std::nullopt;
  if (order_owner_behind_fences(heap)) {
    if (Served served = grow(heap, need, grower)) return served;
  }
  do {
    if (Served served = trim(heap, need, grower, Waiting::kYes)) return served;
  } while (wait_for_one_fence());
  return std::nullopt;
}

Heap* CachingAllocator::heap_for(const Request& request) {
  const std::scoped_lock growth(growth_mutex_);
  PlannedLane* lane = lane_of(request);
  if (lane != nullptr && lane->heap != nullptr) return lane->heap;
  if (Heap* heap = directory_.find(request.pool, request.stream)) return heap;
  Budget& budget = budget_of(request.pool);
  if (heaps_.size() == HeapDirectory::kMaxHeaps) throw std::bad_alloc();
  heaps_.reserve(heaps_.size() + 1);
  directory_.prepare();
  owner_fences_.reserve(heaps_.size() + 1);
  auto heap = std::make_unique<Heap>(static_cast<std::uint32_t>(heaps_.size()), request.stream, request.pool, budget,
                                     rules_);
  if (device_events_.recording()) heap->events().start(&log_.sequence);
  ledger_.add_heap(*heap);
  owner_fences_.emplace_back();
  heaps_.push_back(std::move(heap));
  if (lane != nullptr) lane->heap = heaps_.back().get();
  else directory_.insert(*heaps_.back());
  return heaps_.back().get();
}

FreeOutcome CachingAllocator::free(Address address) {
  Heap* heap = addresses_.find(address);
  if (heap == nullptr) [[unlikely]] return FreeOutcome::kNotLive;
  heap->fetch_live(address);
  bool events_due = false;
  {
    std::unique_lock lock(heap->lock());
    const BlockTable::Live live = heap->find_live(address);
    if (live.block == kNoBlock) [[unlikely]] return FreeOutcome::kNotLive;
    if (heap->used_by_streams(live.block)) [[unlikely]] {
      std::vector<StreamLedger::OpenFence> users = heap->give_pending(live.block);
      lock.unlock();
      fence_pending(*heap, users);
      return FreeOutcome::kPending;
    }
    heap->give(live, address);
    events_due = heap->events().due();
  }
  after_operation(*heap, events_due);
  if (options_.trim == TrimMode::kAboveHighWater) [[unlikely]] trim_above_high_water(*heap);
  return FreeOutcome::kFreed;
}

std::optional<LiveBlock> CachingAllocator::find(Address address) const {
  Heap* heap = addresses_.find(address);
  if (heap == nullptr) return std::nullopt;
  const std::scoped_lock lock(heap->lock());
  const BlockIndex block = heap->find_live(address).block;
  if (block == kNoBlock) return std::nullopt;
  return LiveBlock{{address, heap->block(block).requested_bytes(), heap->block(block).bytes()}, heap->stream, heap->pool,
                   heap->used_by_streams(block)};
}

std::optional<RangePlace> CachingAllocator::find_range(Address address) const {
  const Heap* heap = addresses_.find(address);
  if (heap == nullptr) return std::nullopt;
  const std::scoped_lock lock(heap->lock());
  for (std::uint32_t slot = 0; slot < heap->range_count(); ++slot) {
    const Range& range = heap->range(slot);
    if (range.border == kNoBlock || address - range.source.address >= range.source.bytes) continue;
    return RangePlace{range.source, heap->stream, heap->pool};
  }
  return std::nullopt;
}

bool CachingAllocator::record_stream(Address address, StreamId stream) {
  Heap* heap = addresses_.find(address);
  if (heap == nullptr) return false;
  const std::scoped_lock lock(heap->lock());
  const BlockIndex block = heap->find_live(address).block;
  if (block == kNoBlock) return false;
  if (fences_ != nullptr && stream != heap->stream) heap->record_use(block, stream);
  return true;
}

void CachingAllocator::log_device(EventKind kind, std::size_t bytes, PoolId pool) {
  bool due = false;
  {
    const std::scoped_lock lock(device_events_lock_);
    if (!device_events_.recording()) return;
    Event event;
    event.kind = kind;
    event.bytes = bytes;
    event.device = device_.value;
    event.pool = static_cast<std::uint8_t>(pool.value);
    device_events_.add(event);
    due = device_events_.due();
  }
  if (due) log_.drain(device_events_, device_events_lock_);
}

void CachingAllocator::lock_for_fork() {
  growth_mutex_.lock();
  log_.drain_mutex.lock();
  reap_mutex_.lock();
  ledger_.lock_all();
  device_events_lock_.lock();
}

void CachingAllocator::unlock_after_fork() {
  device_events_lock_.unlock();
  ledger_.unlock_all();
  reap_mutex_.unlock();
  log_.drain_mutex.unlock();
  growth_mutex_.unlock();
}

void CachingAllocator::audit() const {
  ledger_.with_all_locked([&] {
    std::size_t committed = 0;
    for (const Heap* heap : ledger_.heaps()) {
      heap->audit();
      committed += heap->committed_bytes();
    }
    CISTERN_CHECK_EQ(committed, ledger_.reserved_bytes());  // I5
    ledger_.audit();
  });
}

}  // namespace cistern
