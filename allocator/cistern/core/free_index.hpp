// Free blocks by size: a list per bin and a two-level bitmap of the bins that are not empty.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cistern/base/mutant.hpp"
#include "cistern/core/block_table.hpp"
#include "cistern/core/size_class.hpp"

namespace cistern {

/// Threads: guarded by the heap's lock. Cost: insert, remove and fit are O(1).
class FreeIndex {
 public:
  /// A block that is in no list becomes free.
  void insert(BlockTable& blocks, BlockIndex index) noexcept {
    const std::size_t bytes = blocks[index].bytes();
    const std::uint32_t bin = bin_of(bytes);
    blocks[index].set_free(bytes, bin);
    link(blocks, index, bin);
  }
  void remove(BlockTable& blocks, BlockIndex index) noexcept { unlink(blocks, index, blocks[index].bin()); }
  /// Gives a free block another size. A block that stays in its bin, as most large ones do, keeps its place.
  void resize(BlockTable& blocks, BlockIndex index, std::size_t bytes) noexcept {
    const std::uint32_t old_bin = blocks[index].bin();
    const std::uint32_t bin = CISTERN_MUTANT(I3_bin_kept) ? old_bin : bin_of(bytes);
    blocks[index].set_free(bytes, bin);
    if (bin == old_bin) return;
    unlink(blocks, index, old_bin);
    link(blocks, index, bin);
  }

  /// A block of at least `bytes`: the newest of the own bin if it is large enough, else the newest of the next bin that is
  /// not empty. kNoBlock if neither is there: the own bin may still hold one further down, which fit_exactly finds.
  BlockIndex fit(const BlockTable& blocks, std::size_t bytes) const noexcept;

  /// The smallest block of at least `bytes`, ties to the lowest address. Cost: O(blocks of the bin).
  BlockIndex fit_exactly(const BlockTable& blocks, std::size_t bytes) const noexcept;

  std::size_t largest_bytes(const BlockTable& blocks) const noexcept;

  /// The first non-empty bin at or above `bin`, or kBinCount.
  std::uint32_t next_bin(std::uint32_t bin) const noexcept;
  /// The last non-empty bin at or below `bin`, or kBinCount.
  std::uint32_t last_bin(std::uint32_t bin) const noexcept;

  BlockIndex head(std::uint32_t bin) const noexcept { return heads_[bin]; }
  bool bit(std::uint32_t bin) const noexcept { return ((words_[bin / 64] >> (bin % 64)) & 1) != 0; }

 private:
  void link(BlockTable& blocks, BlockIndex index, std::uint32_t bin) noexcept;
  void unlink(BlockTable& blocks, BlockIndex index, std::uint32_t bin) noexcept;

  std::array<BlockIndex, kBinCount + 1> heads_{};  // kNoBlock: an empty bin; the last stands for no bin
  std::array<std::uint64_t, kBinCount / 64> words_{};
  std::uint64_t summary_ = 0;  // bit w: words_[w] was not always zero
};

// The hit path, inline.

[[gnu::always_inline]] inline void FreeIndex::link(BlockTable& blocks, BlockIndex index, std::uint32_t bin) noexcept {
  Block& block = blocks[index];
  const BlockIndex head = heads_[bin];
  block.bin_prev = kNoBlock;
  block.bin_next = head;
  blocks[head].bin_prev = index;
  heads_[bin] = index;
  words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  summary_ |= std::uint64_t{1} << (bin / 64);
}

// Whether a block is the first or the last of its bin is random: no branch asks.
[[gnu::always_inline]] inline void FreeIndex::unlink(BlockTable& blocks, BlockIndex index, std::uint32_t bin) noexcept {
  const BlockIndex next = blocks[index].bin_next;
  const BlockIndex prev = blocks[index].bin_prev;
  blocks[next].bin_prev = prev;
  blocks[prev].bin_next = next;
  blocks[kNoBlock].bin_next = kNoBlock;  // which prev may be
  const BlockIndex first = -static_cast<BlockIndex>(prev == kNoBlock);  // all ones if it is
  const BlockIndex head = heads_[bin] ^ ((heads_[bin] ^ next) & first);
  heads_[bin] = head;
  const std::uint64_t empty = head == kNoBlock;
  if (!CISTERN_MUTANT(I4_bit_stays_set)) words_[bin / 64] &= ~(empty << (bin % 64));
}

[[gnu::always_inline]] inline std::uint32_t FreeIndex::next_bin(std::uint32_t bin) const noexcept {
  if (bin >= kBinCount) return kBinCount;
  const std::uint32_t word = bin / 64;
  const std::uint64_t here = words_[word] & (~std::uint64_t{0} << (bin % 64));
  if (here != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
  for (std::uint64_t above = summary_ & (~std::uint64_t{1} << word); above != 0; above &= above - 1) {
    const auto next = static_cast<std::uint32_t>(std::countr_zero(above));
    if (words_[next] != 0) [[likely]] return next * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[next]));
  }
  return kBinCount;
}

[[gnu::always_inline]] inline BlockIndex FreeIndex::fit(const BlockTable& blocks, std::size_t bytes) const noexcept {
  const std::uint32_t own = bin_of(bytes);
  const BlockIndex newest = heads_[own];
  return blocks[newest].bytes() >= bytes ? newest : heads_[next_bin(own + 1)];
}

}  // namespace cistern
