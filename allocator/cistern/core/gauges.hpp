// What a heap counts on every take and give, and the credit that keeps device peaks exact without a shared write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cistern/core/stats.hpp"

namespace cistern {

/// Totals in and out; current is their difference. While the device has several heaps, current stays at or below
/// `ceiling`; the ceilings of all heaps sum to no more than the device's recorded peak, so that no heap can make a new
/// device peak without noticing (see DeviceLedger).
struct Gauge {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  std::uint64_t ceiling = 0;
  std::uint64_t current() const noexcept { return in - out; }
};

enum GaugeKind : std::size_t {
  kRequestedBytes,
  kAllocatedBytes,
  kActiveBytes,
  kAllocationCount,
  kActiveCount,
  kInactiveSplitBytes,  // its ceiling is the heap's own peak
  kInactiveSplitCount,
  kGaugeCount,
};
inline constexpr std::size_t kLedgerGaugeCount = kInactiveSplitBytes;  // those with credit

class Gauges {
 public:
  Gauge& operator[](std::size_t kind) noexcept { return gauges_[kind]; }
  const Gauge& operator[](std::size_t kind) const noexcept { return gauges_[kind]; }

  static std::uint64_t rise(std::size_t kind, std::size_t requested, std::size_t granted) noexcept {
    if (kind == kRequestedBytes) return requested;
    return kind == kAllocatedBytes || kind == kActiveBytes ? granted : 1;
  }

  bool admits(std::size_t requested, std::size_t granted) const noexcept {
    bool within = true;
    for (std::size_t kind = 0; kind < kLedgerGaugeCount; ++kind) {
      within &= gauges_[kind].current() + rise(kind, requested, granted) <= gauges_[kind].ceiling;
    }
    return within;
  }

  void took(std::size_t requested, std::size_t granted) noexcept {
    for (std::size_t kind = 0; kind < kLedgerGaugeCount; ++kind) gauges_[kind].in += rise(kind, requested, granted);
  }
  /// A live block was freed; it stays active while a stream uses it.
  void gave(std::size_t requested, std::size_t granted) noexcept {
    gauges_[kRequestedBytes].out += requested;
    gauges_[kAllocatedBytes].out += granted;
    gauges_[kAllocationCount].out += 1;
  }
  void deactivated(std::size_t granted) noexcept {
    gauges_[kActiveBytes].out += granted;
    gauges_[kActiveCount].out += 1;
  }
  void split_in(std::size_t bytes) noexcept {
    add(gauges_[kInactiveSplitBytes], bytes);
    add(gauges_[kInactiveSplitCount], 1);
  }
  void split_out(std::size_t bytes) noexcept {
    gauges_[kInactiveSplitBytes].out += bytes;
    gauges_[kInactiveSplitCount].out += 1;
  }

 private:
  static void add(Gauge& gauge, std::uint64_t amount) noexcept {
    gauge.in += amount;
    if (gauge.current() > gauge.ceiling) gauge.ceiling = gauge.current();
  }

  std::array<Gauge, kGaugeCount> gauges_{};
};

}  // namespace cistern
