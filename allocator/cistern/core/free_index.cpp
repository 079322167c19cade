#include "cistern/core/free_index.hpp"

#include <algorithm>

namespace cistern {

BlockIndex FreeIndex::fit_exactly(const BlockTable& blocks, std::size_t bytes) const noexcept {
  for (std::uint32_t bin = next_bin(bin_of(bytes)); bin < kBinCount; bin = next_bin(bin + 1)) {
    BlockIndex best = kNoBlock;
    for (BlockIndex i = heads_[bin]; i != kNoBlock; i = blocks[i].bin_next) {
      const Block& block = blocks[i];
      if (block.bytes() < bytes) continue;
      if (best == kNoBlock || block.bytes() < blocks[best].bytes() ||
          (block.bytes() == blocks[best].bytes() && block.address() < blocks[best].address())) {
        best = i;
      }
    }
    if (best != kNoBlock) return best;
  }
  return kNoBlock;
}

std::uint32_t FreeIndex::last_bin(std::uint32_t bin) const noexcept {
  std::uint64_t here = words_[bin / 64] & (~std::uint64_t{0} >> (63 - bin % 64));
  for (std::uint32_t word = bin / 64;; here = words_[--word]) {
    if (here != 0) return word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(here));
    if (word == 0) return kBinCount;
  }
}

std::size_t FreeIndex::largest_bytes(const BlockTable& blocks) const noexcept {
  std::size_t largest = 0;
  const std::uint32_t bin = last_bin(kBinCount - 1);
  if (bin == kBinCount) return largest;
  for (BlockIndex i = heads_[bin]; i != kNoBlock; i = blocks[i].bin_next) {
    largest = std::max(largest, blocks[i].bytes());
  }
  return largest;
}

}  // namespace cistern
