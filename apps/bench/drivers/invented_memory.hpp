// A device for peers that only ask where memory is and never look at it: addresses from a counter, and a
// capacity.
#pragma once

#include <algorithm>
#include <cstdint>

#include "figures.hpp"

namespace cistern::bench {

/// Not for several threads at once: peers call it under a lock of their own.
class InventedMemory {
 public:
  explicit InventedMemory(std::uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Null: no room. Addresses are never given twice, so nothing that was freed is ever beside what comes
  /// later.
  void* allocate(std::uint64_t bytes) {
    ++usage_.source_calls;
    if (bytes > capacity_bytes_ - usage_.reserved_bytes) return nullptr;
    usage_.reserved_bytes += bytes;
    usage_.peak_reserved_bytes = std::max(usage_.peak_reserved_bytes, usage_.reserved_bytes);
    void* const data = reinterpret_cast<void*>(next_);
    next_ += (bytes + kStep) / kStep * kStep;
    return data;
  }
  void free(std::uint64_t bytes) {
    ++usage_.source_calls;
    usage_.reserved_bytes -= bytes;
  }

  const Usage& usage() const { return usage_; }

 private:
  static constexpr std::uint64_t kStep = std::uint64_t{2} << 20;
  std::uint64_t capacity_bytes_;
  std::uint64_t next_ = std::uint64_t{1} << 40;
  Usage usage_;
};

}  // namespace cistern::bench
