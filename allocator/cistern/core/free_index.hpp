// Free blocks by size: a list per bin and a two-level bitmap of the bins that are not empty.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cistern/core/block_table.hpp"
#include "cistern/core/size_class.hpp"

namespace cistern {

/// Threads: guarded by the heap's lock. Cost: insert, remove and fit are O(1).
class FreeIndex {
 public:
  FreeIndex() { heads_.fill(kNoBlock); }

  void insert(BlockTable& blocks, BlockIndex index) noexcept;
  void remove(BlockTable& blocks, BlockIndex index) noexcept;

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

  /// The first non-empty bin at or above `bin`, or kBinCount.
  std::uint32_t next_bin(std::uint32_t bin) const noexcept;
  BlockIndex smallest(const BlockTable& blocks, std::uint32_t bin, std::size_t bytes,
                      std::size_t scanned) const noexcept;

  std::array<BlockIndex, kBinCount> heads_;
  std::array<std::uint64_t, kBinCount / 64> words_{};
  std::uint64_t summary_ = 0;  // bit w: words_[w] is not zero
};

}  // namespace cistern
