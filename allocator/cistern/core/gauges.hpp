// What a heap counts on every take and give, and the credit that keeps device peaks exact without a shared write.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cistern/base/mutant.hpp"
#include "cistern/core/stats.hpp"

namespace cistern {

enum GaugeKind : std::size_t {
  kRequestedBytes,
  kAllocatedBytes,
  kActiveBytes,
  kAllocationCount,
  kActiveCount,
  kInactiveSplitBytes,
  kInactiveSplitCount,
  kGaugeCount,
};
inline constexpr std::size_t kLedgerGaugeCount = kInactiveSplitBytes;  // those with credit

/// Current values and totals of one heap. While the device has several heaps, no gauge with credit passes its ceiling;
/// the ceilings of all heaps sum to no more than the device's recorded peak, so that no heap can make a new device peak
/// without noticing (see DeviceLedger). The ceilings of the inactive-split gauges are the heap's own peaks.
/// Threads: guarded by the heap's lock.
class Gauges {
 public:
  std::uint64_t in(std::size_t kind) const noexcept {
    switch (kind) {
      case kActiveBytes: return in_[kAllocatedBytes];
      case kActiveCount: return in_[kAllocationCount];
      case kInactiveSplitBytes: return out(kActiveBytes) + claims_in_bytes_ + whole_out_bytes_;
      case kInactiveSplitCount: return free_in_count_ + whole_out_count_;
      default: return in_[kind];
    }
  }
  std::uint64_t out(std::size_t kind) const noexcept {
    switch (kind) {
      case kActiveBytes: return out_[kAllocatedBytes] - pending_bytes_;
      case kActiveCount: return out_[kAllocationCount] - pending_count_;
      case kInactiveSplitBytes: return in_[kAllocatedBytes] + claims_out_bytes_ + whole_in_bytes_;
      case kInactiveSplitCount: return free_out_count_ + whole_in_count_;
      default: return out_[kind];
    }
  }
  std::uint64_t current(std::size_t kind) const noexcept { return in(kind) - out(kind); }
  std::uint64_t ceiling(std::size_t kind) const noexcept { return ceilings_[kind]; }
  void set_ceiling(std::size_t kind, std::uint64_t ceiling) noexcept {
    ceilings_[kind] = ceiling;
    credit_bytes_ = credit_count_ = 0;
    if (kind == kInactiveSplitBytes) split_room_bytes_ = signed_of(ceiling - current(kind));
    if (kind == kInactiveSplitCount) split_room_count_ = signed_of(ceiling - current(kind));
  }

  /// How much a grant adds.
  static std::uint64_t rise(std::size_t kind, std::size_t requested, std::size_t granted) noexcept {
    if (kind == kRequestedBytes) return requested;
    return kind == kAllocatedBytes || kind == kActiveBytes ? granted : 1;
  }

  /// True if a grant passes no ceiling. Requires requested <= granted.
  bool admits(std::size_t requested, std::size_t granted) noexcept {
    if (granted <= credit_bytes_ && credit_count_ != 0) [[likely]] return true;
    return admits_exactly(requested, granted);
  }

  void took(std::size_t requested, std::size_t granted) noexcept {
    credit_bytes_ -= granted;
    --credit_count_;
    in_[kRequestedBytes] += CISTERN_MUTANT(I6_requested_counts_granted) ? granted : requested;
    in_[kAllocatedBytes] += granted;
    ++in_[kAllocationCount];
  }
  void gave(std::size_t requested, std::size_t granted) noexcept {
    // At most what every gauge of bytes fell by.
    credit_bytes_ += CISTERN_MUTANT(I6_credit_of_what_was_granted) ? granted : requested;
    ++credit_count_;
    count_free(requested, granted);
  }
  /// Freed, but a stream uses it: still active.
  void gave_pending(std::size_t requested, std::size_t granted) noexcept {
    count_free(requested, granted);
    pending_bytes_ += granted;
    ++pending_count_;
  }
  void settled(std::size_t granted) noexcept {
    pending_bytes_ -= granted;
    --pending_count_;
  }

  // Inactive-split is what is free less what is free and whole, of which there is little. Free bytes come from what is
  // freed and go to what is granted, so the hit path only watches the peak.
  void free_in(std::size_t bytes) noexcept { watch(kInactiveSplitBytes, split_room_bytes_ -= signed_of(bytes)); }
  void free_out(std::size_t bytes) noexcept { split_room_bytes_ += signed_of(bytes); }
  void free_block_in() noexcept {
    ++free_in_count_;
    watch(kInactiveSplitCount, --split_room_count_);
  }
  void free_block_out() noexcept {
    ++free_out_count_;
    ++split_room_count_;
  }
  /// Free bytes that came with memory from the source, or from a claim given up.
  void claim_in(std::size_t bytes) noexcept {
    claims_in_bytes_ += bytes;
    free_in(bytes);
  }
  void claim_out(std::size_t bytes) noexcept {
    claims_out_bytes_ += bytes;
    free_out(bytes);
  }
  /// A free block without memory beside it: it can be given back whole.
  void whole_in(std::size_t bytes) noexcept {
    whole_in_bytes_ += bytes;
    ++whole_in_count_;
    free_out(bytes);
    ++split_room_count_;
  }
  void whole_out(std::size_t bytes) noexcept {
    whole_out_bytes_ += bytes;
    ++whole_out_count_;
    split_room_bytes_ -= signed_of(bytes);
    --split_room_count_;
  }
  /// Whole blocks came and went: is there a new peak?
  void watch_split() noexcept {
    watch(kInactiveSplitBytes, split_room_bytes_);
    watch(kInactiveSplitCount, split_room_count_);
  }

 private:
  std::uint64_t slack(std::size_t kind) const noexcept { return ceilings_[kind] - current(kind); }

  bool admits_exactly(std::size_t requested, std::size_t granted) noexcept {
    for (std::size_t kind = 0; kind < kLedgerGaugeCount; ++kind) {
      if (current(kind) + rise(kind, requested, granted) > ceilings_[kind]) return false;
    }
    // This grant may pass the least slack, that of requested, of which it takes less than it is granted.
    credit_bytes_ = std::max<std::uint64_t>(
        std::min({slack(kRequestedBytes), slack(kAllocatedBytes), slack(kActiveBytes)}), granted);
    credit_count_ = std::min(slack(kAllocationCount), slack(kActiveCount));
    return true;
  }

  void count_free(std::size_t requested, std::size_t granted) noexcept {
    out_[kRequestedBytes] += requested;
    out_[kAllocatedBytes] += granted;
    ++out_[kAllocationCount];
  }

  static std::int64_t signed_of(std::size_t bytes) noexcept { return static_cast<std::int64_t>(bytes); }
  /// `room` is the peak less the current value; below zero there is a new peak.
  void watch(std::size_t kind, std::int64_t& room) noexcept {
    if (room >= 0) [[likely]] return;
    ceilings_[kind] += static_cast<std::uint64_t>(-room);
    room = 0;
  }

  /// A lower bound of every slack between grants, spent and refilled with two instructions; 0 makes admits() look
  /// closely.
  std::uint64_t credit_bytes_ = 0;
  std::uint64_t credit_count_ = 0;
  std::array<std::uint64_t, kAllocationCount + 1> in_{};   // active: as allocated
  std::array<std::uint64_t, kAllocationCount + 1> out_{};  // active: as allocated, less what is pending
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t pending_count_ = 0;
  std::uint64_t free_in_count_ = 0, free_out_count_ = 0;
  std::uint64_t claims_in_bytes_ = 0, claims_out_bytes_ = 0;
  std::uint64_t whole_in_bytes_ = 0, whole_out_bytes_ = 0, whole_in_count_ = 0, whole_out_count_ = 0;
  std::int64_t split_room_bytes_ = 0, split_room_count_ = 0;
  std::array<std::uint64_t, kGaugeCount> ceilings_{};
};

}  // namespace cistern
