// From an address to the heap that owns it, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/base/spin_lock.hpp"

namespace cistern {

class Heap;

/// A three-level table by address >> 21, whose nodes of 4 KiB are made as they are needed: a small device stays small. Pages that a range covers only in part (segments of a malloc-like source) lead to
/// a short sorted list. Written under the growth mutex before the first grant of a range; read by every free.
class AddressMap {
 public:
  /// Fails with std::bad_alloc and no change. Requires an address below 2^48 and no overlap with another range.
  void add(Address address, std::size_t bytes, Heap* heap);
  void remove(Address address, std::size_t bytes) noexcept;
  /// Another heap for what was added before.
  void change(Address address, std::size_t bytes, Heap* heap) noexcept;
  /// The heap whose range holds the address, or nullptr.
  Heap* find(Address address) const noexcept {
    const std::size_t page = address >> kPageBits;
    if (page < kPages) [[likely]] {
      const Middle* middle = top_[page >> (2 * kBits)].load(std::memory_order_acquire);
      if (middle != nullptr) [[likely]] {
        const Leaf* leaf = (*middle)[page >> kBits & kMask].load(std::memory_order_acquire);
        Heap* heap = leaf == nullptr ? nullptr : (*leaf)[page & kMask].load(std::memory_order_acquire);
        if (heap != nullptr) [[likely]] return heap;
      }
    }
    return find_part(address);
  }

 private:
  static constexpr unsigned kPageBits = 21;
  static constexpr unsigned kBits = 9;
  static constexpr std::size_t kMask = (std::size_t{1} << kBits) - 1;
  static constexpr std::size_t kPages = std::size_t{1} << (3 * kBits);
  static constexpr std::size_t kPageBytes = std::size_t{1} << kPageBits;
  static_assert(kPageBits + 3 * kBits == 48);
  template <class Entry>
  using Node = std::array<std::atomic<Entry*>, std::size_t{1} << kBits>;
  using Leaf = Node<Heap>;
  using Middle = Node<Leaf>;

  struct Part {
    Address address;
    std::size_t bytes;
    Heap* heap;
  };

  Heap* find_part(Address address) const noexcept;
  /// Makes the leaf if there is none.
  Leaf& leaf_of(std::size_t page);
  /// Requires leaves.
  void set_pages(Address begin, Address end, Heap* heap) noexcept;

  Node<Middle> top_{};
  std::vector<std::unique_ptr<Middle>> middles_;
  std::vector<std::unique_ptr<Leaf>> leaves_;
  std::vector<Part> parts_;  // sorted by address
  mutable SpinLock parts_lock_;
};

}  // namespace cistern
