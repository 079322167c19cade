// From (pool, stream) to the heap that serves it, without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cistern/core/heap.hpp"

namespace cistern {

/// Open addressing; heaps are entered under the growth mutex and never taken out while the allocator lives. A table that is
/// full gives way to one of twice the size, and stays for those who read it still.
class HeapDirectory {
 public:
  static constexpr std::size_t kMaxHeaps = 1024;

  HeapDirectory() { prepare(); }

  Heap* find(PoolId pool, StreamId stream) const noexcept {
    const Table& table = *table_.load(std::memory_order_acquire);
    for (std::size_t slot = hash(pool, stream);; ++slot) {
      Heap* heap = table.slots[slot & table.mask].load(std::memory_order_acquire);
      if (heap == nullptr || (heap->stream == stream && heap->pool == pool)) return heap;
    }
  }

  /// Room for one more. May allocate; fails with no change.
  void prepare() {
    const std::size_t size = tables_.empty() ? kFirstSlots : tables_.back()->slots.size();
    if (!tables_.empty() && (count() + 1) * 2 <= size) return;
    tables_.reserve(tables_.size() + 1);
    auto table = std::make_unique<Table>(tables_.empty() ? size : size * 2);
    for (std::size_t number = 0; number < count(); ++number) table->insert(at(number), number);
    tables_.push_back(std::move(table));
    table_.store(tables_.back().get(), std::memory_order_release);
  }

  /// Requires prepare(), and no heap of that pool and stream.
  void insert(Heap& heap) noexcept {
    const std::size_t number = count_.load(std::memory_order_relaxed);
    tables_.back()->insert(heap, number);
    count_.store(number + 1, std::memory_order_release);
  }

  /// Heaps so far, in order of creation.
  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  Heap& at(std::size_t number) const noexcept {
    return *table_.load(std::memory_order_acquire)->heaps[number].load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kFirstSlots = 16;

  struct Table {
    explicit Table(std::size_t size) : mask(size - 1), slots(size), heaps(size / 2) {}
    void insert(Heap& heap, std::size_t number) noexcept {
      std::size_t slot = hash(heap.pool, heap.stream);
      while (slots[slot & mask].load(std::memory_order_relaxed) != nullptr) ++slot;
      heaps[number].store(&heap, std::memory_order_relaxed);
      slots[slot & mask].store(&heap, std::memory_order_release);
    }
    const std::size_t mask;
    std::vector<std::atomic<Heap*>> slots;
    std::vector<std::atomic<Heap*>> heaps;  // by number
  };

  static std::size_t hash(PoolId pool, StreamId stream) noexcept {
    const std::uint64_t key = stream.value * 0x9e3779b97f4a7c15u + pool.value * 0xc2b2ae3d27d4eb4fu;
    return static_cast<std::size_t>(key >> 32);
  }

  std::vector<std::unique_ptr<Table>> tables_;  // the last is in use
  std::atomic<const Table*> table_{nullptr};
  std::atomic<std::size_t> count_{0};
};

}  // namespace cistern
