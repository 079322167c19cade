// Device-wide peaks, exact, although heaps count on their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cistern/core/gauges.hpp"
#include "cistern/core/heap.hpp"
#include "cistern/core/stats.hpp"

namespace cistern {

/// Each heap holds, per gauge, a ceiling it may count up to by itself; the ceilings sum to at most the recorded peak. So
/// for all its blocks, and for its small and its large blocks.
/// A heap that needs more comes here: with all heaps locked the true sum is known, so a new peak is recorded exactly
/// when it happens, and unused credit moves to where it is needed.
/// Threads: any. Its mutex comes after the growth mutex and before heap locks, which it takes in order of numbers.
class DeviceLedger {
 public:
  /// May allocate; fails with no change.
  void add_heap(Heap& heap);

  /// Runs action() with every heap locked. The action must take no lock and call no source.
  template <class Action>
  auto with_all_locked(Action&& action) const {
    const AllLocks locks(*this);
    return action();
  }
  void lock_all() const;
  void unlock_all() const;

  // Each of these requires to run inside with_all_locked.
  const std::vector<Heap*>& heaps() const noexcept { return heaps_; }
  /// Gives the heap credit for one more grant, recording new peaks. The grant must follow before the locks are given.
  void admit(Heap& heap, const Need& need) noexcept;
  /// Bytes committed and ranges holding memory changed.
  void reserved_in(std::size_t block_class, std::size_t bytes, std::size_t ranges) noexcept;
  void reserved_out(std::size_t block_class, std::size_t bytes, std::size_t ranges) noexcept;
  std::uint64_t reserved_bytes() const noexcept { return reserved_[kAllBlocks].bytes.current; }
  std::uint64_t peak(GaugeKind kind) const noexcept { return peaks_[kAllBlocks][kind]; }
  std::uint64_t current(GaugeKind kind) const noexcept { return current(kAllBlocks, kind); }
  /// Every Stat of the device.
  void fill(Stats& stats) const;
  void reset_peaks() noexcept;
  void reset_accumulated() noexcept;
  /// Checks that no peak is below the sum of its ceilings (I6); aborts if one is.
  void audit() const;

 private:
  class AllLocks {
   public:
    explicit AllLocks(const DeviceLedger& ledger) : ledger_(ledger) { ledger_.lock_all(); }
    ~AllLocks() { ledger_.unlock_all(); }
    AllLocks(const AllLocks&) = delete;
    AllLocks& operator=(const AllLocks&) = delete;

   private:
    const DeviceLedger& ledger_;
  };

  struct Reserved {
    Stat bytes;
    Stat ranges;
  };
  struct Base {
    std::uint64_t in = 0;
    std::uint64_t out = 0;
  };

  std::uint64_t current(std::size_t of, GaugeKind kind) const noexcept;
  void share_out(std::size_t of, GaugeKind kind, std::uint64_t spare) noexcept;
  Stat stat_of(std::size_t of, GaugeKind kind) const noexcept;
  void fill(BlockStats& stats, std::size_t of) const noexcept;

  mutable std::mutex mutex_;
  std::vector<Heap*> heaps_;
  // Of small, of large, of all blocks:
  std::array<std::array<std::uint64_t, kLedgerGaugeCount>, kCountedCount> peaks_{};
  std::array<std::array<Base, kGaugeCount>, kCountedCount> bases_{};  // subtracted from totals since reset_accumulated
  std::array<Reserved, kCountedCount> reserved_;
};

}  // namespace cistern
