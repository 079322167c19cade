#include "cistern/core/device_ledger.hpp"

#include <algorithm>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"

namespace cistern {
namespace {

void stat_in(Stat& stat, std::uint64_t amount) noexcept {
  stat.current += amount;
  stat.allocated += amount;
  stat.peak = std::max(stat.peak, stat.current);
}

void stat_out(Stat& stat, std::uint64_t amount) noexcept {
  stat.current -= amount;
  stat.freed += amount;
}

}  // namespace

void DeviceLedger::add_heap(Heap& heap) {
  const std::scoped_lock ledger(mutex_);
  heaps_.push_back(&heap);
}

void DeviceLedger::lock_all() const {
  mutex_.lock();
  for (Heap* heap : heaps_) {
    heap->lock().lock();
    if (!CISTERN_MUTANT(I6_rest_not_ended_by_looking)) heap->end_rest();
  }
}

void DeviceLedger::unlock_all() const {
  for (const Heap* heap : heaps_) heap->lock().unlock();
  mutex_.unlock();
}

std::uint64_t DeviceLedger::current(std::size_t of, GaugeKind kind) const noexcept {
  std::uint64_t sum = 0;
  for (const Heap* heap : heaps_) sum += heap->gauges().current(of, kind);
  return sum;
}

void DeviceLedger::share_out(std::size_t of, GaugeKind kind, std::uint64_t spare) noexcept {
  if (heaps_.empty()) return;
  const std::uint64_t share = spare / heaps_.size();
  for (Heap* heap : heaps_) heap->gauges().set_ceiling(of, kind, heap->gauges().current(of, kind) + share);
}

void DeviceLedger::admit(Heap& heap, const Need& need) noexcept {
  for (const std::size_t of : {need.block_class, kAllBlocks}) {
    const bool missed = of == kAllBlocks ? CISTERN_MUTANT(I6_peak_missed) : CISTERN_MUTANT(I6_class_peak_missed);
    for (std::size_t k = 0; k < kLedgerGaugeCount; ++k) {
      const auto kind = static_cast<GaugeKind>(k);
      const std::uint64_t rise = Gauges::rise(kind, need.requested_bytes, need.granted_bytes);
      const std::uint64_t sum = current(of, kind) + rise;
      if (!missed) peaks_[of][kind] = std::max(peaks_[of][kind], sum);
      share_out(of, kind, peaks_[of][kind] - sum);
      heap.gauges().set_ceiling(of, kind, heap.gauges().ceiling(of, kind) + rise);
    }
  }
}

void DeviceLedger::reserved_in(std::size_t block_class, std::size_t bytes, std::size_t ranges) noexcept {
  for (const std::size_t of : {block_class, kAllBlocks}) {
    stat_in(reserved_[of].bytes, bytes);
    if (ranges != 0) stat_in(reserved_[of].ranges, ranges);
  }
}

void DeviceLedger::reserved_out(std::size_t block_class, std::size_t bytes, std::size_t ranges) noexcept {
  for (const std::size_t of : {block_class, kAllBlocks}) {
    stat_out(reserved_[of].bytes, bytes);
    if (ranges != 0) stat_out(reserved_[of].ranges, ranges);
  }
}

Stat DeviceLedger::stat_of(std::size_t of, GaugeKind kind) const noexcept {
  Stat stat;
  for (const Heap* heap : heaps_) {
    const Gauges& gauges = heap->gauges();
    stat.current += gauges.current(of, kind);
    stat.allocated += gauges.in(of, kind);
    stat.freed += gauges.out(of, kind);
    if (kind >= kLedgerGaugeCount) stat.peak += gauges.split_peak(of, kind);
  }
  if (kind < kLedgerGaugeCount) stat.peak = peaks_[of][kind];
  stat.allocated -= bases_[of][kind].in;
  stat.freed -= bases_[of][kind].out;
  return stat;
}

void DeviceLedger::fill(BlockStats& stats, std::size_t of) const noexcept {
  stats.requested = stat_of(of, kRequestedBytes);
  stats.allocated = stat_of(of, kAllocatedBytes);
  stats.active = stat_of(of, kActiveBytes);
  stats.allocations = stat_of(of, kAllocationCount);
  stats.active_blocks = stat_of(of, kActiveCount);
  stats.inactive_split = stat_of(of, kInactiveSplitBytes);
  stats.inactive_split_blocks = stat_of(of, kInactiveSplitCount);
  stats.reserved = reserved_[of].bytes;
  stats.segments = reserved_[of].ranges;
}

void DeviceLedger::fill(Stats& stats) const {
  fill(stats, kAllBlocks);
  for (std::size_t of = 0; of < kClassCount; ++of) fill(stats.of_class[of], of);
}

void DeviceLedger::reset_peaks() noexcept {
  for (std::size_t of = 0; of < kCountedCount; ++of) {
    for (std::size_t k = 0; k < kLedgerGaugeCount; ++k) {
      const auto kind = static_cast<GaugeKind>(k);
      share_out(of, kind, 0);
      peaks_[of][kind] = current(of, kind);
    }
    reserved_[of].bytes.peak = reserved_[of].bytes.current;
    reserved_[of].ranges.peak = reserved_[of].ranges.current;
  }
  for (Heap* heap : heaps_) heap->gauges().reset_split_peaks();
}

void DeviceLedger::reset_accumulated() noexcept {
  for (std::size_t of = 0; of < kCountedCount; ++of) {
    for (std::size_t kind = 0; kind < kGaugeCount; ++kind) {
      bases_[of][kind] = Base{};
      for (const Heap* heap : heaps_) {
        bases_[of][kind].in += heap->gauges().in(of, kind);
        bases_[of][kind].out += heap->gauges().out(of, kind);
      }
    }
    reserved_[of].bytes.allocated = reserved_[of].bytes.freed = 0;
    reserved_[of].ranges.allocated = reserved_[of].ranges.freed = 0;
  }
}

void DeviceLedger::audit() const {
  std::uint64_t reserved = 0;
  for (std::size_t of = 0; of < kCountedCount; ++of) {
    for (std::size_t kind = 0; kind < kLedgerGaugeCount; ++kind) {
      std::uint64_t ceilings = 0;
      for (const Heap* heap : heaps_) ceilings += heap->gauges().ceiling(of, kind);
      CISTERN_CHECK_LE(ceilings, peaks_[of][kind]);  // I6, as each heap checks that it is below its ceiling
    }
    CISTERN_CHECK_LE(reserved_[of].bytes.current, reserved_[of].bytes.peak);
    if (of != kAllBlocks) reserved += reserved_[of].bytes.current;
  }
  CISTERN_CHECK_EQ(reserved, reserved_bytes());
}

}  // namespace cistern
