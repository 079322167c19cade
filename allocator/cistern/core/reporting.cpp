// What the allocator says of itself: statistics, failures, snapshots, recordings.
#include <algorithm>
#include <bit>
#include <map>

#include "cistern/core/caching_allocator.hpp"

namespace cistern {
namespace {

/// Live bytes by powers of two, the largest five classes by bytes.
std::vector<Holder> holders_of(const std::vector<Heap*>& heaps) {
  std::map<int, Holder> classes;
  for (const Heap* heap : heaps) {
    for (std::uint32_t slot = 0; slot < heap->range_count(); ++slot) {
      for (BlockIndex i = heap->first_block(slot); i != kNoBlock; i = heap->block(i).next) {
        if (heap->block(i).state() != BlockState::kActive) continue;
        const std::size_t bytes = heap->block(i).bytes();
        Holder& holder = classes[static_cast<int>(std::bit_width(bytes))];
        if (holder.count == 0) holder.smallest_bytes = bytes;
        holder.smallest_bytes = std::min(holder.smallest_bytes, bytes);
        holder.largest_bytes = std::max(holder.largest_bytes, bytes);
        holder.bytes += bytes;
        ++holder.count;
      }
    }
  }
  std::vector<Holder> holders;
  for (const auto& [bits, holder] : classes) holders.push_back(holder);
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (holders.size() > 5) holders.resize(5);
  return holders;
}

}  // namespace

Failure CachingAllocator::failure_now(FailureCode code, std::size_t asked_bytes, const Heap* heap) const {
  Failure failure;
  failure.code = code;
  failure.device = device_;
  failure.source = source_.traits().name;
  failure.capacity_bytes = source_.traits().capacity_bytes;
  failure.asked_bytes = asked_bytes;
  ledger_.with_all_locked([&] {
    Stats stats;
    ledger_.fill(stats);
    if (heap != nullptr) failure.largest_free_bytes = heap->largest_free_bytes();
    failure.active_bytes = stats.active.current;
    failure.pending_bytes = stats.active.current - stats.allocated.current;
    failure.reserved_bytes = stats.reserved.current;
    failure.free_bytes = stats.reserved.current - stats.active.current;
    failure.holders = holders_of(ledger_.heaps());
  });
  return failure;
}

Failure CachingAllocator::fail(Heap& heap, const Need& need, const Grower& grower) {
  Failure failure = failure_now(FailureCode::kLimit, need.requested_bytes, &heap);
  failure.need_bytes = std::max(grower.need_bytes, need.granted_bytes * (grower.refusal == Refusal::kNone ? 1 : 0));
  failure.limit_bytes = heap.budget.tightest_limit();
  const std::size_t claimed = failure.limit_bytes - heap.budget.headroom();
  const bool climbed = grower.refusal != Refusal::kNone;
  if (need.granted_bytes > failure.capacity_bytes) {
    failure.code = FailureCode::kTooLarge;
  } else if (grower.refusal == Refusal::kSource) {
    failure.code = FailureCode::kSourceRefused;
  } else {
    failure.sufficient_limit_bytes = round_up(claimed + failure.need_bytes, rules_.granule_bytes);
  }
  for (std::size_t rung = 0; rung + 1 < kRungCount; ++rung) failure.tried[rung] = climbed;
  if (fences_ == nullptr) {
    failure.tried[static_cast<std::size_t>(Rung::kReap)] = false;
    failure.tried[static_cast<std::size_t>(Rung::kWait)] = false;
  }
  return failure;
}

Failure CachingAllocator::in_use_failure(std::size_t limit_bytes, const Budget& budget) {
  Failure failure = failure_now(FailureCode::kInUse, limit_bytes, nullptr);
  failure.limit_bytes = budget.limit();
  failure.sufficient_limit_bytes = budget.claimed();
  return failure;
}

Stats CachingAllocator::stats() const {
  Stats stats;
  std::uint64_t grants = 0;
  ledger_.with_all_locked([&] {
    ledger_.fill(stats);
    for (Heap* heap : ledger_.heaps()) {
      grants += heap->gauges().in(kAllBlocks, kAllocationCount);
      stats.largest_free_bytes = std::max<std::uint64_t>(stats.largest_free_bytes, heap->largest_free_bytes());
      stats.dropped_events += heap->events().dropped();
    }
  });
  stats.pending_bytes = stats.active.current - stats.allocated.current;
  stats.limit_bytes = budget_.limit();
  std::uint64_t slow = 0;
  for (std::size_t rung = 1; rung < kRungCount; ++rung) {
    stats.served[rung] = served_[rung].load(std::memory_order_relaxed);
    if (rung != static_cast<std::size_t>(Rung::kFail)) slow += stats.served[rung];
  }
  stats.served[0] = grants - std::min(grants, slow);
  stats.source_calls = source_calls_.load();
  return stats;
}

void CachingAllocator::reset_peak() {
  const std::scoped_lock growth(growth_mutex_);
  ledger_.with_all_locked([&] {
    remap_.saw_active(ledger_.peak(kActiveBytes));
    ledger_.reset_peaks();
  });
}

void CachingAllocator::reset_accumulated() {
  ledger_.with_all_locked([&] { ledger_.reset_accumulated(); });
}

std::vector<RangeInfo> CachingAllocator::snapshot() const {
  std::vector<RangeInfo> ranges;
  ledger_.with_all_locked([&] {
    for (const Heap* heap : ledger_.heaps()) {
      for (std::uint32_t slot = 0; slot < heap->range_count(); ++slot) {
        const Range& range = heap->range(slot);
        if (range.border == kNoBlock) continue;
        RangeInfo info{range.source.address, range.source.bytes, range.committed_bytes, heap->stream,
                       heap->pool,           range.small,        {}};
        for (BlockIndex i = heap->first_block(slot); i != kNoBlock; i = heap->block(i).next) {
          const Block& block = heap->block(i);
          const bool used = block.state() == BlockState::kActive || block.state() == BlockState::kPending;
          info.blocks.push_back({block.address(), block.bytes(), used ? block.requested_bytes() : 0, block.state()});
        }
        ranges.push_back(std::move(info));
      }
    }
  });
  return ranges;
}

void CachingAllocator::tell_live_state(std::vector<Event>& events) {
  const auto tell = [&](const Heap& heap, EventKind kind, Address address, std::size_t bytes, std::size_t granted) {
    Event event;
    event.kind = kind;
    event.sequence = log_.sequence.fetch_add(1, std::memory_order_relaxed);
    event.address = address;
    event.bytes = bytes;
    event.granted_bytes = granted;
    event.stream = heap.stream.value;
    event.heap = heap.number;
    event.device = device_.value;
    event.pool = static_cast<std::uint8_t>(heap.pool.value);
    events.push_back(event);
  };
  for (const Heap* heap : ledger_.heaps()) {
    for (std::uint32_t slot = 0; slot < heap->range_count(); ++slot) {
      const Range& range = heap->range(slot);
      if (range.border == kNoBlock) continue;
      tell(*heap, EventKind::kReserve, range.source.address, range.source.bytes, 0);
      for (BlockIndex i = heap->first_block(slot); i != kNoBlock;) {
        const Address address = heap->block(i).address();
        std::size_t bytes = 0;
        for (; i != kNoBlock && heap->block(i).state() != BlockState::kHole; i = heap->block(i).next) {
          bytes += heap->block(i).bytes();
        }
        if (bytes != 0) tell(*heap, EventKind::kCommit, address, bytes, 0);
        if (i != kNoBlock) i = heap->block(i).next;
      }
      for (BlockIndex i = heap->first_block(slot); i != kNoBlock; i = heap->block(i).next) {
        const Block& block = heap->block(i);
        if (block.state() != BlockState::kActive) continue;
        tell(*heap, EventKind::kAllocate, block.address(), block.requested_bytes(), block.bytes());
      }
    }
  }
}

void CachingAllocator::start_recording(EventSink& sink) {
  const std::scoped_lock growth(growth_mutex_);
  CISTERN_CHECK_EQ(device_events_.recording(), false);
  const std::scoped_lock draining(log_.drain_mutex);
  log_.sequence.store(0, std::memory_order_relaxed);
  log_.spare.reserve(EventBuffer::kCapacity);
  std::vector<Event> events;
  ledger_.with_all_locked([&] {
    for (std::size_t pool = 0; pool <= pool_count_; ++pool) {
      Event limit;
      limit.kind = EventKind::kLimit;
      limit.sequence = log_.sequence.fetch_add(1, std::memory_order_relaxed);
      limit.bytes = budget_of(PoolId{static_cast<std::uint16_t>(pool)}).limit();
      limit.device = device_.value;
      limit.pool = static_cast<std::uint8_t>(pool);
      events.push_back(limit);
    }
    tell_live_state(events);
    for (Heap* heap : ledger_.heaps()) heap->events().start(&log_.sequence);
  });
  {
    const std::scoped_lock lock(device_events_lock_);
    device_events_.start(&log_.sequence);
  }
  log_.sink = &sink;
  sink.consume(events);
}

void CachingAllocator::deliver_events(Heap& heap) { log_.drain(heap.events(), heap.lock()); }

void CachingAllocator::stop_recording() {
  const std::scoped_lock growth(growth_mutex_);
  ledger_.with_all_locked([&] {
    for (Heap* heap : ledger_.heaps()) heap->events().stop();
  });
  {
    const std::scoped_lock lock(device_events_lock_);
    device_events_.stop();
  }
  for (const auto& heap : heaps_) deliver_events(*heap);
  log_.drain(device_events_, device_events_lock_);
  const std::scoped_lock draining(log_.drain_mutex);
  log_.sink = nullptr;
}

Options CachingAllocator::options() const {
  const std::scoped_lock growth(growth_mutex_);
  return options_;
}

void CachingAllocator::mark(std::uint64_t number) { log_device(EventKind::kMark, number); }

}  // namespace cistern
