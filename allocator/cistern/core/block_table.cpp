#include "cistern/core/block_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace cistern {
namespace {

constexpr std::size_t kFirstSlots = 64;

}  // namespace

BlockTable::BlockTable() : blocks_(1) {
  blocks_[kNoBlock].state = BlockState::kHole;
  rehash(kFirstSlots);
}

void BlockTable::prepare(std::size_t blocks) {
  if (ready_for(blocks)) return;
  const std::size_t wanted = std::max<std::size_t>(block_count() + blocks, 16) * 2;
  // Both may throw, and both leave everything as it was when they do.
  if (blocks_.size() - 1 < wanted) {
    const std::size_t first = blocks_.size();
    blocks_.resize(wanted + 1);
    block_room_ += blocks_.size() - first;
    for (std::size_t index = blocks_.size(); index-- > first;) {
      blocks_[index].bin_next = first_unused_;
      first_unused_ = static_cast<BlockIndex>(index);
    }
  }
  const std::size_t slots = std::bit_ceil(wanted * 2);
  if (slots > slots_.size()) rehash(slots);
}

void BlockTable::rehash(std::size_t slot_count) {
  std::vector<Slot> old(slot_count);
  const std::size_t live = live_count();
  std::swap(old, slots_);
  live_room_ = slot_count / 2 - live;
  shift_ = 32 - static_cast<unsigned>(std::countr_zero(slot_count));
  mask_ = slot_count - 1;
  for (const Slot& entry : old) {
    if (entry.index == kNoBlock) continue;
    std::size_t slot = home(entry.hash);
    while (slots_[slot].index != kNoBlock) slot = (slot + 1) & mask_;
    slots_[slot] = entry;
  }
}

}  // namespace cistern
