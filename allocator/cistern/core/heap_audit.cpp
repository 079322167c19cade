// Promises I1 to I6, checked block by block. Shares nothing with the code that keeps them but the records themselves.
#include "cistern/base/check.hpp"
#include "cistern/core/heap.hpp"

namespace cistern {

void Heap::audit_range(std::uint32_t slot, Seen& seen, std::size_t& free_blocks) const {
  const Range& range = ranges_[slot];
  std::size_t committed = 0;
  Address at = range.source.address;
  BlockIndex before = kNoBlock;
  for (BlockIndex index = range.first; index != kNoBlock; before = index, index = blocks_[index].next) {
    const Block& block = blocks_[index];
    CISTERN_CHECK_EQ(block.address, at);  // I1: blocks tile the range
    CISTERN_CHECK_NE(block.bytes, 0u);
    CISTERN_CHECK_EQ(block.bytes % rules_.least_block_bytes, 0u);
    CISTERN_CHECK_EQ(block.prev, before);
    CISTERN_CHECK_EQ(block.range, slot);
    CISTERN_CHECK_EQ(block.block_class, range.small ? kSmallBlocks : kLargeBlocks);
    at += block.bytes;
    const bool mergeable = block.state == BlockState::kFree || block.state == BlockState::kHole;
    if (before != kNoBlock && mergeable) {
      CISTERN_CHECK_NE(static_cast<int>(blocks_[before].state), static_cast<int>(block.state));  // I2
    }
    if (block.state == BlockState::kHole) {
      CISTERN_CHECK_EQ((block.address - range.source.address) % rules_.granule_bytes, 0u);
      CISTERN_CHECK_EQ(block.bytes % rules_.granule_bytes, 0u);
    } else {
      committed += block.state == BlockState::kClaimed ? block.requested_bytes : block.bytes;
    }
    if (block.state == BlockState::kFree) {
      ++free_blocks;
      const auto in_use = [&](BlockIndex i) { return i != kNoBlock && blocks_[i].state != BlockState::kHole; };
      CISTERN_CHECK_EQ(block.split, in_use(block.prev) || in_use(block.next));
      if (block.split) {
        seen[kInactiveSplitBytes] += block.bytes;
        ++seen[kInactiveSplitCount];
      }
    }
    if (block.state == BlockState::kActive) {
      CISTERN_CHECK_EQ(blocks_.find(block.address), index);
      CISTERN_CHECK_LE(block.requested_bytes, block.bytes);  // I6, I7
      seen[kRequestedBytes] += block.requested_bytes;
      seen[kAllocatedBytes] += block.bytes;
      ++seen[kAllocationCount];
    }
    if (block.state == BlockState::kActive || block.state == BlockState::kPending) {
      seen[kActiveBytes] += block.bytes;
      ++seen[kActiveCount];
    }
  }
  CISTERN_CHECK_EQ(at, range.source.address + range.source.bytes);
  CISTERN_CHECK_EQ(committed, range.committed_bytes);  // I5
}

void Heap::audit_index(std::size_t free_blocks) const {
  std::size_t indexed = 0;
  for (std::size_t which = 0; which < index_.size(); ++which) {
    for (std::uint32_t bin = 0; bin < kBinCount; ++bin) {
      CISTERN_CHECK_EQ(index_[which].bit(bin), index_[which].head(bin) != kNoBlock);  // I4
      BlockIndex before = kNoBlock;
      for (BlockIndex i = index_[which].head(bin); i != kNoBlock; before = i, i = blocks_[i].bin_next) {
        CISTERN_CHECK_EQ(static_cast<int>(blocks_[i].state), static_cast<int>(BlockState::kFree));
        CISTERN_CHECK_EQ(bin_of(blocks_[i].bytes), bin);  // I3
        CISTERN_CHECK_EQ(blocks_[i].bin_prev, before);
        CISTERN_CHECK_EQ(blocks_[i].block_class, which);
        ++indexed;
      }
    }
  }
  CISTERN_CHECK_EQ(indexed, free_blocks);  // I3: every free block is in a bin, once
}

void Heap::audit() const {
  std::array<Seen, kCountedCount> seen{};
  std::size_t free_blocks = 0;
  std::size_t committed = 0;
  for (std::uint32_t slot = 0; slot < ranges_.size(); ++slot) {
    if (ranges_[slot].first == kNoBlock) continue;
    audit_range(slot, seen[ranges_[slot].small ? kSmallBlocks : kLargeBlocks], free_blocks);
    committed += ranges_[slot].committed_bytes;
  }
  audit_index(free_blocks);
  CISTERN_CHECK_EQ(committed, committed_bytes_);  // I5
  for (std::size_t kind = 0; kind < kGaugeCount; ++kind) {
    seen[kAllBlocks][kind] = seen[kSmallBlocks][kind] + seen[kLargeBlocks][kind];
  }
  CISTERN_CHECK_EQ(seen[kAllBlocks][kAllocationCount], blocks_.live_count());
  for (std::size_t of = 0; of < kCountedCount; ++of) {
    for (std::size_t kind = 0; kind < kGaugeCount; ++kind) {
      CISTERN_CHECK_EQ(seen[of][kind], gauges_.current(of, kind));
      CISTERN_CHECK_LE(seen[of][kind],
                       kind < kLedgerGaugeCount ? gauges_.ceiling(of, kind) : gauges_.split_peak(of, kind));
    }
    CISTERN_CHECK_LE(seen[of][kRequestedBytes], seen[of][kAllocatedBytes]);  // I6
    CISTERN_CHECK_LE(seen[of][kAllocatedBytes], seen[of][kActiveBytes]);
    CISTERN_CHECK_LE(seen[of][kActiveBytes],
                     of == kAllBlocks ? committed_bytes_ : committed_bytes(of == kSmallBlocks));
  }
}

}  // namespace cistern
