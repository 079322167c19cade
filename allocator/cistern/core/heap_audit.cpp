// Promises I1 to I6, checked block by block. Shares nothing with the code that keeps them but the records themselves.
#include "cistern/base/check.hpp"
#include "cistern/core/heap.hpp"

namespace cistern {

void Heap::audit_range(std::uint32_t slot, Seen& seen, Indexed& indexed) const {
  const Range& range = ranges_[slot];
  std::size_t committed = 0;
  Address at = range.source.address;
  BlockIndex before = range.border;
  CISTERN_CHECK_EQ(blocks_[before].bytes(), 0u);
  CISTERN_CHECK_EQ(blocks_[before].requested_bytes(), slot);
  for (BlockIndex index = first_block(slot); index != kNoBlock; before = index, index = blocks_[index].next) {
    const Block& block = blocks_[index];
    const BlockState state = block.state();
    const std::size_t bytes = block.bytes();
    CISTERN_CHECK_EQ(block.address(), at);  // I1: blocks tile the range
    CISTERN_CHECK_NE(bytes, 0u);
    CISTERN_CHECK_EQ(bytes % rules_.least_block_bytes, 0u);
    CISTERN_CHECK_EQ(block.prev, before);
    CISTERN_CHECK_EQ(block.block_class(), range.small ? kSmallBlocks : kLargeBlocks);
    at += bytes;
    if (before != range.border && (state == BlockState::kFree || state == BlockState::kHole)) {
      CISTERN_CHECK_NE(static_cast<int>(blocks_[before].state()), static_cast<int>(state));  // I2
    }
    if (state == BlockState::kHole) {
      CISTERN_CHECK_EQ((block.address() - range.source.address) % rules_.granule_bytes, 0u);
      CISTERN_CHECK_EQ(bytes % rules_.granule_bytes, 0u);
      ++indexed.holes;
    } else {
      committed += state == BlockState::kClaimed ? block.requested_bytes() : bytes;
    }
    if (state == BlockState::kFree) {
      ++indexed.free_blocks;
      const auto in_use = [&](BlockIndex i) { return i != kNoBlock && blocks_[i].state() != BlockState::kHole; };
      CISTERN_CHECK_EQ(block.split(), in_use(block.prev) || in_use(block.next));
      if (block.split()) {
        seen[kInactiveSplitBytes] += bytes;
        ++seen[kInactiveSplitCount];
      }
    }
    if (state == BlockState::kActive) {
      CISTERN_CHECK_EQ(blocks_.find(block.address()).block, index);
      CISTERN_CHECK_LE(block.requested_bytes(), bytes);  // I6, I7
      seen[kRequestedBytes] += block.requested_bytes();
      seen[kAllocatedBytes] += bytes;
      ++seen[kAllocationCount];
    }
    if (state == BlockState::kActive || state == BlockState::kPending) {
      seen[kActiveBytes] += bytes;
      ++seen[kActiveCount];
    }
  }
  CISTERN_CHECK_EQ(at, range.source.address + range.source.bytes);
  CISTERN_CHECK_EQ(committed, range.committed_bytes);  // I5
}

void Heap::audit_index(const Indexed& expected) const {
  Indexed indexed;
  for (std::size_t which = 0; which < index_.size(); ++which) {
    for (std::uint32_t bin = 0; bin < kBinCount; ++bin) {
      CISTERN_CHECK_EQ(index_[which].bit(bin), index_[which].head(bin) != kNoBlock);  // I4
      BlockIndex before = kNoBlock;
      for (BlockIndex i = index_[which].head(bin); i != kNoBlock; before = i, i = blocks_[i].bin_next) {
        CISTERN_CHECK_EQ(static_cast<int>(blocks_[i].state()), static_cast<int>(BlockState::kFree));
        CISTERN_CHECK_EQ(bin_of(blocks_[i].bytes()), bin);  // I3
        CISTERN_CHECK_EQ(blocks_[i].bin_prev, before);
        CISTERN_CHECK_EQ(blocks_[i].block_class(), which);
        ++indexed.free_blocks;
      }
    }
    for (std::size_t bin = 0; bin < kHoleBins; ++bin) {
      BlockIndex before = kNoBlock;
      for (BlockIndex i = holes_[which][bin]; i != kNoBlock; before = i, i = blocks_[i].bin_next) {
        const std::size_t granules = blocks_[i].bytes() / rules_.granule_bytes;
        CISTERN_CHECK_EQ(static_cast<int>(blocks_[i].state()), static_cast<int>(BlockState::kHole));
        CISTERN_CHECK_LE(std::size_t{1} << bin, granules);  // I3
        if (bin + 1 < kHoleBins) CISTERN_CHECK_LE(granules, (std::size_t{2} << bin) - 1);
        CISTERN_CHECK_EQ(blocks_[i].bin_prev, before);
        CISTERN_CHECK_EQ(blocks_[i].block_class(), which);
        ++indexed.holes;
      }
    }
  }
  CISTERN_CHECK_EQ(indexed.free_blocks, expected.free_blocks);  // I3: every free block and hole is in a bin, once
  CISTERN_CHECK_EQ(indexed.holes, expected.holes);
}

void Heap::audit() const {
  std::array<Seen, kCountedCount> seen{};
  Indexed indexed;
  std::size_t committed = 0;
  for (std::uint32_t slot = 0; slot < ranges_.size(); ++slot) {
    if (ranges_[slot].border == kNoBlock) continue;
    audit_range(slot, seen[ranges_[slot].small ? kSmallBlocks : kLargeBlocks], indexed);
    committed += ranges_[slot].committed_bytes;
  }
  audit_index(indexed);
  CISTERN_CHECK_EQ(committed, committed_bytes());  // I5
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
                     of == kAllBlocks ? committed_bytes() : committed_bytes(of));
  }
}

}  // namespace cistern
