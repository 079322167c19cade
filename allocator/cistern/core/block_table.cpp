#include "cistern/core/block_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace cistern {
namespace {

constexpr std::size_t kFirstSlots = 64;

}  // namespace

BlockTable::BlockTable() { rehash(kFirstSlots); }

void BlockTable::prepare(std::size_t blocks) {
  if (ready_for(blocks)) return;
  const std::size_t wanted = std::max<std::size_t>(block_count() + blocks, 16) * 2;
  // Both may throw, and both leave everything as it was when they do.
  if (blocks_.capacity() < wanted) blocks_.reserve(wanted);
  const std::size_t slots = std::bit_ceil(wanted * 2);
  if (slots > slots_.size()) rehash(slots);
}

BlockIndex BlockTable::create(const Block& block) {
  if (first_unused_ != kNoBlock) {
    const BlockIndex index = first_unused_;
    first_unused_ = blocks_[index].bin_next;
    --unused_count_;
    blocks_[index] = block;
    return index;
  }
  CISTERN_ASSERT(blocks_.size() < blocks_.capacity());
  blocks_.push_back(block);
  return static_cast<BlockIndex>(blocks_.size() - 1);
}

void BlockTable::destroy(BlockIndex index) noexcept {
  blocks_[index] = Block{};
  blocks_[index].bin_next = first_unused_;
  first_unused_ = index;
  ++unused_count_;
}

void BlockTable::insert(BlockIndex index) noexcept {
  const std::uint32_t hash = hash_of(blocks_[index].address);
  std::size_t slot = home(hash);
  while (slots_[slot].index != kNoBlock) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = Slot{hash, index};
  ++live_count_;
}

BlockIndex BlockTable::find(Address address) const noexcept {
  const std::uint32_t hash = hash_of(address);
  for (std::size_t slot = home(hash); slots_[slot].index != kNoBlock; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].hash == hash && blocks_[slots_[slot].index].address == address) return slots_[slot].index;
  }
  return kNoBlock;
}

std::size_t BlockTable::slot_of(BlockIndex index) const noexcept {
  std::size_t slot = home(hash_of(blocks_[index].address));
  while (slots_[slot].index != index) {
    CISTERN_ASSERT(slots_[slot].index != kNoBlock);
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void BlockTable::erase(BlockIndex index) noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t gap = slot_of(index);
  // Backward shift: no tombstones, so the cost does not grow with the age of the table.
  for (std::size_t probe = (gap + 1) & mask; slots_[probe].index != kNoBlock; probe = (probe + 1) & mask) {
    const std::size_t distance_home = (probe - home(slots_[probe].hash)) & mask;
    const std::size_t distance_gap = (probe - gap) & mask;
    if (distance_home >= distance_gap) {
      slots_[gap] = slots_[probe];
      gap = probe;
    }
  }
  slots_[gap] = Slot{};
  --live_count_;
}

void BlockTable::rehash(std::size_t slot_count) {
  std::vector<Slot> old(slot_count);
  std::swap(old, slots_);
  shift_ = 32 - static_cast<unsigned>(std::countr_zero(slot_count));
  const std::size_t mask = slot_count - 1;
  for (const Slot& entry : old) {
    if (entry.index == kNoBlock) continue;
    std::size_t slot = home(entry.hash);
    while (slots_[slot].index != kNoBlock) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }
}

}  // namespace cistern
