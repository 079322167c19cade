// What a heap counts on every take and give, and the credit that keeps device peaks exact without a shared write.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cistern/base/mutant.hpp"
#include "cistern/core/split_peaks.hpp"
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

/// Current values and totals of one heap, `of` its small, its large, or all its blocks. While the device has several
/// heaps, no gauge with credit passes its ceiling; the ceilings of all heaps sum to no more than the device's recorded
/// peak, so that no heap can make a new device peak without noticing (see DeviceLedger).
/// Arrays have the class as last index, so that counting by class costs the hit path no arithmetic.
/// Threads: guarded by the heap's lock.
class Gauges {
 public:
  std::uint64_t in(std::size_t of, std::size_t kind) const noexcept {
    if (of == kAllBlocks) return in(kSmallBlocks, kind) + in(kLargeBlocks, kind);
    switch (kind) {
      case kActiveBytes: return in_[kAllocatedBytes][of];
      case kActiveCount: return in_[kAllocationCount][of];
      case kInactiveSplitBytes: return out(of, kActiveBytes) + claims_in_bytes_[of] + whole_out_bytes_[of];
      case kInactiveSplitCount: return free_in_count_[of] + whole_out_count_[of];
      default: return in_[kind][of];
    }
  }
  std::uint64_t out(std::size_t of, std::size_t kind) const noexcept {
    if (of == kAllBlocks) return out(kSmallBlocks, kind) + out(kLargeBlocks, kind);
    switch (kind) {
      case kActiveBytes: return out_[kAllocatedBytes][of] - pending_bytes_[of];
      case kActiveCount: return out_[kAllocationCount][of] - pending_count_[of];
      case kInactiveSplitBytes: return in_[kAllocatedBytes][of] + claims_out_bytes_[of] + whole_in_bytes_[of];
      case kInactiveSplitCount: return free_out_count_[of] + whole_in_count_[of];
      default: return out_[kind][of];
    }
  }
  std::uint64_t current(std::size_t of, std::size_t kind) const noexcept { return in(of, kind) - out(of, kind); }

  /// For gauges with credit.
  std::uint64_t ceiling(std::size_t of, std::size_t kind) const noexcept { return ceilings_[of][kind]; }
  void set_ceiling(std::size_t of, std::size_t kind, std::uint64_t ceiling) noexcept {
    ceilings_[of][kind] = ceiling;
    credit_bytes_[of] = credit_count_[of] = 0;
  }
  /// For the others: the heap's own peak.
  std::uint64_t split_peak(std::size_t of, std::size_t kind) const noexcept {
    return kind == kInactiveSplitBytes ? split_peaks_.bytes(of) : split_peaks_.count(of);
  }
  void reset_split_peaks() noexcept {
    for (std::size_t of = 0; of < kCountedCount; ++of) {
      split_peaks_.reset(of, current(of, kInactiveSplitBytes), current(of, kInactiveSplitCount));
    }
  }

  /// How much a grant adds.
  static std::uint64_t rise(std::size_t kind, std::size_t requested, std::size_t granted) noexcept {
    if (kind == kRequestedBytes) return requested;
    return kind == kAllocatedBytes || kind == kActiveBytes ? granted : 1;
  }

  /// True if a grant passes no ceiling. Requires requested <= granted.
  bool admits(std::size_t block_class, std::size_t requested, std::size_t granted) noexcept {
    const auto has_credit = [&](std::size_t of) {
      return signed_of(granted) <= credit_bytes_[of] && credit_count_[of] > 0;
    };
    if (has_credit(block_class) && has_credit(kAllBlocks)) [[likely]] return true;
    return (has_credit(block_class) || admits_exactly(block_class, requested, granted)) &&
           (has_credit(kAllBlocks) || admits_exactly(kAllBlocks, requested, granted));
  }

  void took(std::size_t block_class, std::size_t requested, std::size_t granted) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) {
      credit_bytes_[of] -= signed_of(granted);
      --credit_count_[of];
    }
    in_[kRequestedBytes][block_class] += CISTERN_MUTANT(I6_requested_counts_granted) ? granted : requested;
    in_[kAllocatedBytes][block_class] += granted;
    ++in_[kAllocationCount][block_class];
  }
  void gave(std::size_t block_class, std::size_t requested, std::size_t granted) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) {
      // At most what every gauge of bytes fell by.
      credit_bytes_[of] += signed_of(CISTERN_MUTANT(I6_credit_of_what_was_granted) ? granted : requested);
      ++credit_count_[of];
    }
    count_free(block_class, requested, granted);
  }
  /// Freed, but a stream uses it: still active.
  void gave_pending(std::size_t block_class, std::size_t requested, std::size_t granted) noexcept {
    count_free(block_class, requested, granted);
    pending_bytes_[block_class] += granted;
    ++pending_count_[block_class];
  }
  void settled(std::size_t block_class, std::size_t granted) noexcept {
    pending_bytes_[block_class] -= granted;
    --pending_count_[block_class];
  }

  // Inactive-split is what is free less what is free and whole, of which there is little. Free bytes come from what is
  // freed and go to what is granted, so the hit path only watches the peak.
  void free_in(std::size_t block_class, std::size_t bytes) noexcept { split_peaks_.bytes_in(block_class, bytes); }
  void free_out(std::size_t block_class, std::size_t bytes) noexcept { split_peaks_.bytes_out(block_class, bytes); }
  void free_block_in(std::size_t block_class) noexcept {
    ++free_in_count_[block_class];
    split_peaks_.block_in(block_class);
  }
  void free_block_out(std::size_t block_class) noexcept {
    ++free_out_count_[block_class];
    split_peaks_.block_out(block_class);
  }
  /// Free bytes that came with memory from the source, or from a claim given up.
  void claim_in(std::size_t block_class, std::size_t bytes) noexcept {
    claims_in_bytes_[block_class] += bytes;
    free_in(block_class, bytes);
  }
  void claim_out(std::size_t block_class, std::size_t bytes) noexcept {
    claims_out_bytes_[block_class] += bytes;
    free_out(block_class, bytes);
  }
  /// A free block without memory beside it: it can be given back whole.
  void whole_in(std::size_t block_class, std::size_t bytes) noexcept {
    whole_in_bytes_[block_class] += bytes;
    ++whole_in_count_[block_class];
    free_out(block_class, bytes);
    split_peaks_.block_out(block_class);
  }
  void whole_out(std::size_t block_class, std::size_t bytes) noexcept {
    whole_out_bytes_[block_class] += bytes;
    ++whole_out_count_[block_class];
    split_peaks_.whole_out(block_class, bytes);
  }
  void see_whole_blocks(std::size_t block_class) noexcept { split_peaks_.see_whole_blocks(block_class); }

 private:
  using PerClass = std::array<std::uint64_t, kClassCount>;

  std::uint64_t slack(std::size_t of, std::size_t kind) const noexcept {
    return ceilings_[of][kind] - current(of, kind);
  }

  bool admits_exactly(std::size_t of, std::size_t requested, std::size_t granted) noexcept {
    for (std::size_t kind = 0; kind < kLedgerGaugeCount; ++kind) {
      if (rise(kind, requested, granted) > slack(of, kind)) return false;
    }
    credit_bytes_[of] = signed_of(std::min({slack(of, kRequestedBytes), slack(of, kAllocatedBytes),
                                            slack(of, kActiveBytes)}));
    credit_count_[of] = signed_of(std::min(slack(of, kAllocationCount), slack(of, kActiveCount)));
    if (CISTERN_MUTANT(I6_credit_without_a_grant)) credit_bytes_[of] = std::max(credit_bytes_[of], signed_of(granted));
    return true;
  }

  void count_free(std::size_t block_class, std::size_t requested, std::size_t granted) noexcept {
    out_[kRequestedBytes][block_class] += requested;
    out_[kAllocatedBytes][block_class] += granted;
    ++out_[kAllocationCount][block_class];
  }

  static std::int64_t signed_of(std::uint64_t amount) noexcept { return static_cast<std::int64_t>(amount); }

  /// A lower bound of every slack, spent and refilled with two instructions; where it is not enough, admits() looks
  /// closely. Below zero after a grant of more than was asked, by which requested rises less.
  std::array<std::int64_t, kCountedCount> credit_bytes_{}, credit_count_{};
  std::array<PerClass, kAllocationCount + 1> in_{};   // active: as allocated
  std::array<PerClass, kAllocationCount + 1> out_{};  // active: as allocated, less what is pending
  PerClass pending_bytes_{}, pending_count_{};
  PerClass free_in_count_{}, free_out_count_{};
  PerClass claims_in_bytes_{}, claims_out_bytes_{};
  PerClass whole_in_bytes_{}, whole_out_bytes_{}, whole_in_count_{}, whole_out_count_{};
  SplitPeaks split_peaks_;
  std::array<std::array<std::uint64_t, kLedgerGaugeCount>, kCountedCount> ceilings_{};
};

}  // namespace cistern
