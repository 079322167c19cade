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
      case kInactiveSplitBytes: return free_in_bytes_ + whole_out_bytes_;
      case kInactiveSplitCount: return free_in_count_ + whole_out_count_;
      default: return in_[kind];
    }
  }
  std::uint64_t out(std::size_t kind) const noexcept {
    switch (kind) {
      case kActiveBytes: return out_[kAllocatedBytes] - pending_bytes_;
      case kActiveCount: return out_[kAllocationCount] - pending_count_;
      case kInactiveSplitBytes: return free_out_bytes_ + whole_in_bytes_;
      case kInactiveSplitCount: return free_out_count_ + whole_in_count_;
      default: return out_[kind];
    }
  }
  std::uint64_t current(std::size_t kind) const noexcept { return in(kind) - out(kind); }
  std::uint64_t ceiling(std::size_t kind) const noexcept { return ceilings_[kind]; }
  void set_ceiling(std::size_t kind, std::uint64_t ceiling) noexcept {
    ceilings_[kind] = ceiling;
    credit_bytes_ = credit_count_ = 0;
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

  // Inactive-split is what is free less what is free and whole, of which there is little: the hit path counts free
  // bytes only.
  void free_in(std::size_t bytes) noexcept {
    free_in_bytes_ += bytes;
    raise_peak(kInactiveSplitBytes);
  }
  void free_out(std::size_t bytes) noexcept { free_out_bytes_ += bytes; }
  void free_block_in() noexcept {
    ++free_in_count_;
    raise_peak(kInactiveSplitCount);
  }
  void free_block_out() noexcept { ++free_out_count_; }
  /// A free block without memory beside it: it can be given back whole.
  void whole_in(std::size_t bytes) noexcept {
    whole_in_bytes_ += bytes;
    ++whole_in_count_;
  }
  void whole_out(std::size_t bytes) noexcept {
    whole_out_bytes_ += bytes;
    ++whole_out_count_;
    raise_peak(kInactiveSplitBytes);
    raise_peak(kInactiveSplitCount);
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

  /// In the middle of an operation a difference may be negative for a moment, hence signed.
  void raise_peak(std::size_t kind) noexcept {
    const auto now = static_cast<std::int64_t>(in(kind) - out(kind));
    if (now > static_cast<std::int64_t>(ceilings_[kind])) ceilings_[kind] = static_cast<std::uint64_t>(now);
  }

  /// A lower bound of every slack between grants, spent and refilled with two instructions; 0 makes admits() look
  /// closely.
  std::uint64_t credit_bytes_ = 0;
  std::uint64_t credit_count_ = 0;
  std::array<std::uint64_t, kAllocationCount + 1> in_{};   // active: as allocated
  std::array<std::uint64_t, kAllocationCount + 1> out_{};  // active: as allocated, less what is pending
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t pending_count_ = 0;
  std::uint64_t free_in_bytes_ = 0, free_out_bytes_ = 0, free_in_count_ = 0, free_out_count_ = 0;
  std::uint64_t whole_in_bytes_ = 0, whole_out_bytes_ = 0, whole_in_count_ = 0, whole_out_count_ = 0;
  std::array<std::uint64_t, kGaugeCount> ceilings_{};
};

}  // namespace cistern
