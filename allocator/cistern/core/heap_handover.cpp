// Whole ranges pass from a heap to another: memory crosses streams without a call of the source.
#include <algorithm>

#include "cistern/base/mutant.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {

std::optional<std::uint32_t> Heap::find_vacant_range(const Need& need, std::uint64_t idle_epoch) const noexcept {
  const bool small = need.block_class == kSmallBlocks;
  std::optional<std::uint32_t> best;
  for (std::uint32_t slot = 0; slot < ranges_.size(); ++slot) {
    const Range& range = ranges_[slot];
    if (range.border == kNoBlock || range.small != small || range.planned || range.committed_bytes == 0) continue;
    if (range.source.bytes < need.span_bytes(rules_.least_block_bytes)) continue;
    if (best && range.committed_bytes <= ranges_[*best].committed_bytes) continue;
    const auto idle = [&](BlockIndex block) {
      return epochs_.epoch_of(blocks_[block].last_free()) <= idle_epoch || CISTERN_MUTANT(I13_busy_range_handed_over);
    };
    BlockIndex block = first_block(slot);
    while (block != kNoBlock && vacant(block) && (is_hole(block) || idle(block))) block = blocks_[block].next;
    if (block == kNoBlock) best = slot;
  }
  return best;
}

void Heap::adopt_range(Heap& from, std::uint32_t from_slot) {
  std::size_t count = 1;  // the border
  for (BlockIndex i = from.first_block(from_slot); i != kNoBlock; i = from.blocks_[i].next) ++count;
  blocks_.prepare(kRoom + count);
  std::uint32_t slot = unused_slot_;
  while (slot < ranges_.size() && ranges_[slot].border != kNoBlock) ++slot;
  if (slot == ranges_.size()) ranges_.emplace_back();
  unused_slot_ = slot + 1;
  const Range old = from.ranges_[from_slot];
  const std::size_t block_class = old.small ? kSmallBlocks : kLargeBlocks;
  Block border(old.source.address, 0, block_class, BlockState::kHole);
  border.set_requested_bytes(slot);
  ranges_[slot] = old;
  ranges_[slot].border = blocks_.create(border);
  BlockIndex last = ranges_[slot].border;
  for (BlockIndex i = from.first_block(from_slot); i != kNoBlock;) {
    const Block block = from.blocks_[i];
    const bool hole = from.is_hole(i);
    if (hole) from.unlink_hole(i);
    else from.remove_free(i, block_class);
    from.blocks_.destroy(i);
    // Idle for whatever this heap's stream does: as if never freed.
    last = link_new(Block(block.address(), block.bytes(), block_class, BlockState::kHole), last, kNoBlock);
    if (hole) link_hole(last);
    else insert_free(last, block_class);
    i = block.next;
  }
  from.blocks_.destroy(old.border);
  from.ranges_[from_slot] = Range{};
  from.unused_slot_ = std::min(from.unused_slot_, from_slot);
  from.gauges_.claim_out(block_class, old.committed_bytes);
  from.committed_bytes_[block_class] -= old.committed_bytes;
  gauges_.claim_in(block_class, old.committed_bytes);
  committed_bytes_[block_class] += old.committed_bytes;
}

}  // namespace cistern
