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
  FreeIndex() { heads_.fill(kNoBlock); }

  void insert(BlockTable& blocks, BlockIndex index) noexcept { insert_into(blocks, index, bin_of(blocks[index].bytes)); }
  void remove(BlockTable& blocks, BlockIndex index) noexcept;
  /// Gives a free block another size. A block that stays in its bin, as most large ones do, keeps its place.
  void resize(BlockTable& blocks, BlockIndex index, std::size_t bytes) noexcept {
    const std::uint32_t bin = bin_of(bytes);
    blocks[index].bytes = bytes;
    if (bin == blocks[index].bin || CISTERN_MUTANT(I3_bin_kept)) return;
    remove(blocks, index);
    insert_into(blocks, index, bin);
  }

  /// A block of at least `bytes`: the smallest of the first four that fit in the own bin, else of the first four of the
  /// next bin that is not empty; ties to the lowest address. kNoBlock if neither has one: the own bin may still hold one
  /// further down, which fit_exactly finds.
  BlockIndex fit(const BlockTable& blocks, std::size_t bytes) const noexcept;

  /// The smallest block of at least `bytes`, ties to the lowest address. Cost: O(blocks of the bin).
  BlockIndex fit_exactly(const BlockTable& blocks, std::size_t bytes) const noexcept;

  std::size_t largest_bytes(const BlockTable& blocks) const noexcept;

  BlockIndex head(std::uint32_t bin) const noexcept { return heads_[bin]; }
  bool bit(std::uint32_t bin) const noexcept { return ((words_[bin / 64] >> (bin % 64)) & 1) != 0; }

  /// Calls visit(index) for every free block. The visitor must not change the index.
  template <class Visitor>
  void for_each(const BlockTable& blocks, Visitor&& visit) const {
    for (std::uint32_t bin = next_bin(0); bin < kBinCount; bin = next_bin(bin + 1)) {
      for (BlockIndex i = heads_[bin]; i != kNoBlock; i = blocks[i].bin_next) visit(i);
    }
  }

 private:
  static constexpr std::size_t kScanned = 4;

  void insert_into(BlockTable& blocks, BlockIndex index, std::uint32_t bin) noexcept;
  /// The first non-empty bin at or above `bin`, or kBinCount.
  std::uint32_t next_bin(std::uint32_t bin) const noexcept;
  BlockIndex smallest(const BlockTable& blocks, std::uint32_t bin, std::size_t bytes,
                      std::size_t scanned) const noexcept;

  std::array<BlockIndex, kBinCount> heads_;
  std::array<std::uint64_t, kBinCount / 64> words_{};
  std::uint64_t summary_ = 0;  // bit w: words_[w] is not zero
};

// The hit path, inline.

[[gnu::always_inline]] inline void FreeIndex::insert_into(BlockTable& blocks, BlockIndex index, std::uint32_t bin) noexcept {
  Block& block = blocks[index];
  block.bin = static_cast<std::uint16_t>(bin);
  block.bin_prev = kNoBlock;
  block.bin_next = heads_[bin];
  if (heads_[bin] != kNoBlock) blocks[heads_[bin]].bin_prev = index;
  heads_[bin] = index;
  words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  summary_ |= std::uint64_t{1} << (bin / 64);
}

[[gnu::always_inline]] inline void FreeIndex::remove(BlockTable& blocks, BlockIndex index) noexcept {
  const Block& block = blocks[index];
  const std::uint32_t bin = block.bin;
  if (block.bin_next != kNoBlock) blocks[block.bin_next].bin_prev = block.bin_prev;
  if (block.bin_prev != kNoBlock) {
    blocks[block.bin_prev].bin_next = block.bin_next;
    return;
  }
  heads_[bin] = block.bin_next;
  if (heads_[bin] != kNoBlock) return;
  if (!CISTERN_MUTANT(I4_bit_stays_set)) words_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (words_[bin / 64] == 0) summary_ &= ~(std::uint64_t{1} << (bin / 64));
}

[[gnu::always_inline]] inline std::uint32_t FreeIndex::next_bin(std::uint32_t bin) const noexcept {
  if (bin >= kBinCount) return kBinCount;
  const std::uint32_t word = bin / 64;
  const std::uint64_t here = words_[word] & (~std::uint64_t{0} << (bin % 64));
  if (here != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
  const std::uint64_t above = summary_ & (~std::uint64_t{1} << word);
  if (above == 0) return kBinCount;
  const auto next = static_cast<std::uint32_t>(std::countr_zero(above));
  return next * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[next]));
}

[[gnu::always_inline]] inline BlockIndex FreeIndex::smallest(const BlockTable& blocks, std::uint32_t bin, std::size_t bytes,
                               std::size_t scanned) const noexcept {
  BlockIndex best = kNoBlock;
  std::size_t least = std::size_t{1} << 63;
  for (BlockIndex i = heads_[bin]; i != kNoBlock && scanned != 0; i = blocks[i].bin_next, --scanned) {
    // The excess of what is too small wraps to more than any. Sizes are random to the processor: compares whose outcome
    // is kept cost less than branches guessed wrong.
    const std::size_t excess = blocks[i].bytes - bytes;
    if (excess == least && blocks[best].address < blocks[i].address) [[unlikely]] continue;
    const bool better = excess <= least;
    least = better ? excess : least;
    best = better ? i : best;
  }
  return best;
}

[[gnu::always_inline]] inline BlockIndex FreeIndex::fit(const BlockTable& blocks, std::size_t bytes) const noexcept {
  const std::uint32_t own = bin_of(bytes);
  for (std::uint32_t bin = next_bin(own); bin != kBinCount; bin = next_bin(bin + 1)) {
    const BlockIndex found = smallest(blocks, bin, bytes, kScanned);
    if (found != kNoBlock || bin != own) return found;
  }
  return kNoBlock;
}

}  // namespace cistern
