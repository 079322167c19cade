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

/// A two-level table by address >> 21. Pages that a range covers only in part (segments of a malloc-like source) lead to
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
      const Leaf* leaf = top_[page >> kLeafBits].load(std::memory_order_acquire);
      Heap* heap = leaf == nullptr ? nullptr : (*leaf)[page & (kLeafPages - 1)].load(std::memory_order_acquire);
      if (heap != nullptr) [[likely]] return heap;
    }
    return find_part(address);
  }

 private:
  static constexpr unsigned kPageBits = 21;
  static constexpr unsigned kLeafBits = 13;
  static constexpr unsigned kTopBits = 48 - kPageBits - kLeafBits;
  static constexpr std::size_t kPages = std::size_t{1} << (kTopBits + kLeafBits);
  static constexpr std::size_t kPageBytes = std::size_t{1} << kPageBits;
  static constexpr std::size_t kLeafPages = std::size_t{1} << kLeafBits;
  using Leaf = std::array<std::atomic<Heap*>, kLeafPages>;

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

  std::array<std::atomic<Leaf*>, std::size_t{1} << kTopBits> top_{};
  std::vector<std::unique_ptr<Leaf>> leaves_;
  std::vector<Part> parts_;  // sorted by address
  mutable SpinLock parts_lock_;
};

}  // namespace cistern
