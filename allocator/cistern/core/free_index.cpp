#include "cistern/core/free_index.hpp"

#include <algorithm>

namespace cistern {

BlockIndex FreeIndex::fit_exactly(const BlockTable& blocks, std::size_t bytes) const noexcept {
  for (std::uint32_t bin = next_bin(bin_of(bytes)); bin < kBinCount; bin = next_bin(bin + 1)) {
    Smallest smallest(bytes);
    for (BlockIndex i = heads_[bin]; i != kNoBlock; i = blocks[i].bin_next) smallest.consider(blocks, i);
    if (smallest.index() != kNoBlock) return smallest.index();
  }
  return kNoBlock;
}

std::size_t FreeIndex::largest_bytes(const BlockTable& blocks) const noexcept {
  std::size_t largest = 0;
  for (std::uint32_t word = kBinCount / 64; word-- > 0;) {
    if (words_[word] == 0) continue;
    const auto bin = word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(words_[word]));
    for (BlockIndex i = heads_[bin]; i != kNoBlock; i = blocks[i].bin_next) {
      largest = std::max(largest, blocks[i].bytes());
    }
    break;
  }
  return largest;
}

}  // namespace cistern
