// From (pool, stream) to the heap that serves it, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cistern/core/heap.hpp"

namespace cistern {

/// Open addressing; heaps are entered under the growth mutex and never taken out while the allocator lives.
class HeapDirectory {
 public:
  static constexpr std::size_t kMaxHeaps = 1024;

  Heap* find(PoolId pool, StreamId stream) const noexcept {
    for (std::size_t slot = home(pool, stream);; slot = (slot + 1) % kSlots) {
      Heap* heap = slots_[slot].load(std::memory_order_acquire);
      if (heap == nullptr || (heap->stream == stream && heap->pool == pool)) return heap;
    }
  }

  /// Requires fewer than kMaxHeaps heaps, and none of that pool and stream.
  void insert(Heap& heap) noexcept {
    std::size_t slot = home(heap.pool, heap.stream);
    while (slots_[slot].load(std::memory_order_relaxed) != nullptr) slot = (slot + 1) % kSlots;
    slots_[slot].store(&heap, std::memory_order_release);
    const std::size_t count = count_.load(std::memory_order_relaxed);
    heaps_[count].store(&heap, std::memory_order_relaxed);
    count_.store(count + 1, std::memory_order_release);
  }

  /// Heaps so far, in order of creation.
  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  Heap& at(std::size_t number) const noexcept { return *heaps_[number].load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kSlots = kMaxHeaps * 2;

  static std::size_t home(PoolId pool, StreamId stream) noexcept {
    const std::uint64_t key = stream.value * 0x9e3779b97f4a7c15u + pool.value * 0xc2b2ae3d27d4eb4fu;
    return static_cast<std::size_t>(key >> 32) % kSlots;
  }

  std::array<std::atomic<Heap*>, kSlots> slots_{};
  std::array<std::atomic<Heap*>, kMaxHeaps> heaps_{};
  std::atomic<std::size_t> count_{0};
};

}  // namespace cistern
