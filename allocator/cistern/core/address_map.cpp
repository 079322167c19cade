#include "cistern/core/address_map.hpp"

#include <algorithm>
#include <mutex>

#include "cistern/base/check.hpp"
#include "cistern/base/units.hpp"

namespace cistern {
namespace {

/// What the entry leads to, made if it leads nowhere yet. May throw, and nothing is changed then.
template <class Node>
Node& made(std::atomic<Node*>& entry, std::vector<std::unique_ptr<Node>>& nodes) {
  Node* node = entry.load(std::memory_order_relaxed);
  if (node == nullptr) {
    nodes.push_back(std::make_unique<Node>());
    node = nodes.back().get();
    entry.store(node, std::memory_order_release);
  }
  return *node;
}

}  // namespace

AddressMap::Leaf& AddressMap::leaf_of(std::size_t page) {
  Middle& middle = made(top_[page >> (2 * kBits)], middles_);
  return made(middle[page >> kBits & kMask], leaves_);
}

void AddressMap::set_pages(Address begin, Address end, Heap* heap) noexcept {
  for (std::size_t page = begin >> kPageBits; page < end >> kPageBits;) {
    const Middle& middle = *top_[page >> (2 * kBits)].load(std::memory_order_relaxed);
    Leaf& leaf = *middle[page >> kBits & kMask].load(std::memory_order_relaxed);
    do {
      leaf[page & kMask].store(heap, std::memory_order_release);
    } while (++page < end >> kPageBits && (page & kMask) != 0);
  }
}

void AddressMap::add(Address address, std::size_t bytes, Heap* heap) {
  const Address end = address + bytes;
  CISTERN_CHECK_LE(end, Address{1} << 48);
  const Address first_whole = round_up(address, kPageBytes);
  const Address last_whole = round_down(end, kPageBytes);
  if (first_whole < last_whole) {  // may throw; nothing is set yet
    const std::size_t last = (last_whole >> kPageBits) - 1;
    for (std::size_t page = first_whole >> kPageBits; page < last; page += kMask + 1) leaf_of(page);
    leaf_of(last);
  }
  if (first_whole != address || last_whole != end) {
    const std::scoped_lock lock(parts_lock_);
    const auto at = std::upper_bound(parts_.begin(), parts_.end(), address,
                                     [](Address a, const Part& part) { return a < part.address; });
    parts_.insert(at, Part{address, bytes, heap});
  }
  set_pages(first_whole, last_whole, heap);
}

void AddressMap::remove(Address address, std::size_t bytes) noexcept {
  const Address end = address + bytes;
  {
    const std::scoped_lock lock(parts_lock_);
    const auto at = std::lower_bound(parts_.begin(), parts_.end(), address,
                                     [](const Part& part, Address a) { return part.address < a; });
    if (at != parts_.end() && at->address == address) parts_.erase(at);
  }
  const Address first_whole = round_up(address, kPageBytes);
  const Address last_whole = round_down(end, kPageBytes);
  set_pages(first_whole, last_whole, nullptr);
}

void AddressMap::change(Address address, std::size_t bytes, Heap* heap) noexcept {
  {
    const std::scoped_lock lock(parts_lock_);
    for (Part& part : parts_) {
      if (part.address == address) part.heap = heap;
    }
  }
  set_pages(round_up(address, kPageBytes), round_down(address + bytes, kPageBytes), heap);
}

Heap* AddressMap::find_part(Address address) const noexcept {
  const std::scoped_lock lock(parts_lock_);
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), address,
                                      [](Address a, const Part& part) { return a < part.address; });
  if (after == parts_.begin()) return nullptr;
  const Part& part = *std::prev(after);
  return address < part.address + part.bytes ? part.heap : nullptr;
}

}  // namespace cistern
