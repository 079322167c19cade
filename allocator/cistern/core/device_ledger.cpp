#include "cistern/core/device_ledger.hpp"

#include <algorithm>

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

std::uint64_t DeviceLedger::current(GaugeKind kind) const noexcept {
  std::uint64_t sum = 0;
  for (const Heap* heap : heaps_) sum += heap->gauges().current(kind);
  return sum;
}

void DeviceLedger::share_out(GaugeKind kind, std::uint64_t spare) noexcept {
  if (heaps_.empty()) return;
  const std::uint64_t share = spare / heaps_.size();
  for (Heap* heap : heaps_) {
    heap->gauges().set_ceiling(kind, heap->gauges().current(kind) + share);
  }
}

void DeviceLedger::admit(Heap& heap, const Need& need) noexcept {
  for (std::size_t k = 0; k < kLedgerGaugeCount; ++k) {
    const auto kind = static_cast<GaugeKind>(k);
    const std::uint64_t rise = Gauges::rise(kind, need.requested_bytes, need.granted_bytes);
    const std::uint64_t sum = current(kind) + rise;
    if (!CISTERN_MUTANT(I6_peak_missed)) peaks_[kind] = std::max(peaks_[kind], sum);
    share_out(kind, peaks_[kind] - sum);
    heap.gauges().set_ceiling(kind, heap.gauges().ceiling(kind) + rise);
  }
}

void DeviceLedger::reserved_in(std::size_t bytes, std::size_t ranges) noexcept {
  stat_in(reserved_, bytes);
  if (ranges != 0) stat_in(segments_, ranges);
}

void DeviceLedger::reserved_out(std::size_t bytes, std::size_t ranges) noexcept {
  stat_out(reserved_, bytes);
  if (ranges != 0) stat_out(segments_, ranges);
}

Stat DeviceLedger::stat_of(GaugeKind kind) const noexcept {
  Stat stat;
  for (const Heap* heap : heaps_) {
    const Gauges& gauges = heap->gauges();
    stat.current += gauges.current(kind);
    stat.allocated += gauges.in(kind);
    stat.freed += gauges.out(kind);
    stat.peak += gauges.ceiling(kind);  // right for inactive_split; replaced below for gauges with credit
  }
  if (kind < kLedgerGaugeCount) stat.peak = peaks_[kind];
  stat.allocated -= bases_[kind].in;
  stat.freed -= bases_[kind].out;
  return stat;
}

void DeviceLedger::fill(Stats& stats) const {
  stats.requested = stat_of(kRequestedBytes);
  stats.allocated = stat_of(kAllocatedBytes);
  stats.active = stat_of(kActiveBytes);
  stats.allocations = stat_of(kAllocationCount);
  stats.active_blocks = stat_of(kActiveCount);
  stats.inactive_split = stat_of(kInactiveSplitBytes);
  stats.inactive_split_blocks = stat_of(kInactiveSplitCount);
  stats.reserved = reserved_;
  stats.segments = segments_;
}

void DeviceLedger::reset_peaks() noexcept {
  for (std::size_t k = 0; k < kGaugeCount; ++k) {
    const auto kind = static_cast<GaugeKind>(k);
    share_out(kind, 0);
    if (k < kLedgerGaugeCount) peaks_[k] = current(kind);
  }
  reserved_.peak = reserved_.current;
  segments_.peak = segments_.current;
}

void DeviceLedger::reset_accumulated() noexcept {
  for (std::size_t k = 0; k < kGaugeCount; ++k) {
    bases_[k] = Base{};
    for (const Heap* heap : heaps_) {
      bases_[k].in += heap->gauges().in(k);
      bases_[k].out += heap->gauges().out(k);
    }
  }
  reserved_.allocated = reserved_.freed = 0;
  segments_.allocated = segments_.freed = 0;
}

}  // namespace cistern
