// Whole ranges pass from a heap to another: memory crosses streams without a call of the source.
#include <utility>

#include "cistern/base/mutant.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {

std::optional<std::uint32_t> Heap::find_vacant_range(const Need& need, std::uint64_t idle_frees) const noexcept {
  const bool small = class_of(need) == kSmallBlocks;
  std::optional<std::uint32_t> best;
  for (std::uint32_t slot = 0; slot < ranges_.size(); ++slot) {
    const Range& range = ranges_[slot];
    if (range.first == kNoBlock || range.small != small || range.planned || range.committed_bytes == 0) continue;
    if (range.source.bytes < need.span_bytes(rules_.least_block_bytes)) continue;
    if (best && range.committed_bytes <= ranges_[*best].committed_bytes) continue;
    BlockIndex block = range.first;
    while (vacant(block) && (blocks_[block].last_free <= idle_frees || CISTERN_MUTANT(I13_busy_range_handed_over))) {
      block = blocks_[block].next;
    }
    if (block == kNoBlock) best = slot;
  }
  return best;
}

void Heap::adopt_range(Heap& from, std::uint32_t from_slot) {
  std::size_t count = 0;
  for (BlockIndex i = from.ranges_[from_slot].first; i != kNoBlock; i = from.blocks_[i].next) ++count;
  blocks_.prepare(kRoom + count);
  std::uint32_t slot = 0;
  while (slot < ranges_.size() && ranges_[slot].first != kNoBlock) ++slot;
  if (slot == ranges_.size()) ranges_.emplace_back();
  Range& old = from.ranges_[from_slot];
  Range& range = ranges_[slot] = old;
  const std::size_t block_class = range.small ? kSmallBlocks : kLargeBlocks;
  BlockIndex last = kNoBlock;
  for (BlockIndex i = std::exchange(old.first, kNoBlock); i != kNoBlock;) {
    Block block = from.blocks_[i];
    const BlockIndex next = block.next;
    if (block.state == BlockState::kHole) from.unlink_hole(i);
    else from.remove_free(i);
    from.blocks_.destroy(i);
    block.range = slot;
    block.last_free = 0;  // idle for whatever this heap's stream does
    block.prev = last;
    block.next = kNoBlock;
    const BlockIndex taken = blocks_.create(block);
    (last == kNoBlock ? range.first : blocks_[last].next) = taken;
    last = taken;
    i = next;
  }
  from.gauges_.claim_out(block_class, range.committed_bytes);
  from.committed_bytes_ -= range.committed_bytes;
  old = Range{};
  for (BlockIndex i = range.first; i != kNoBlock; i = blocks_[i].next) {
    if (blocks_[i].state == BlockState::kHole) link_hole(i);
    else insert_free(i);
  }
  gauges_.claim_in(block_class, range.committed_bytes);
  committed_bytes_ += range.committed_bytes;
}

}  // namespace cistern
