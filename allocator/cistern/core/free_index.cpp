#include "cistern/core/free_index.hpp"

namespace cistern {

void FreeIndex::insert(BlockTable& blocks, BlockIndex index) noexcept {
  Block& block = blocks[index];
  const std::uint32_t bin = bin_of(block.bytes);
  block.bin_prev = kNoBlock;
  block.bin_next = heads_[bin];
  if (heads_[bin] != kNoBlock) blocks[heads_[bin]].bin_prev = index;
  heads_[bin] = index;
  words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  summary_ |= std::uint64_t{1} << (bin / 64);
}

void FreeIndex::remove(BlockTable& blocks, BlockIndex index) noexcept {
  const Block& block = blocks[index];
  const std::uint32_t bin = bin_of(block.bytes);
  if (block.bin_next != kNoBlock) blocks[block.bin_next].bin_prev = block.bin_prev;
  if (block.bin_prev != kNoBlock) {
    blocks[block.bin_prev].bin_next = block.bin_next;
    return;
  }
  heads_[bin] = block.bin_next;
  if (heads_[bin] != kNoBlock) return;
  words_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (words_[bin / 64] == 0) summary_ &= ~(std::uint64_t{1} << (bin / 64));
}

std::uint32_t FreeIndex::next_bin(std::uint32_t bin) const noexcept {
  if (bin >= kBinCount) return kBinCount;
  const std::uint32_t word = bin / 64;
  const std::uint64_t here = words_[word] & (~std::uint64_t{0} << (bin % 64));
  if (here != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
  const std::uint64_t above = summary_ & (~std::uint64_t{1} << word);
  if (above == 0) return kBinCount;
  const auto next = static_cast<std::uint32_t>(std::countr_zero(above));
  return next * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[next]));
}

BlockIndex FreeIndex::smallest(const BlockTable& blocks, std::uint32_t bin, std::size_t bytes,
                               std::size_t scanned) const noexcept {
  BlockIndex best = kNoBlock;
  for (BlockIndex i = heads_[bin]; i != kNoBlock && scanned != 0; i = blocks[i].bin_next, --scanned) {
    const Block& block = blocks[i];
    if (block.bytes < bytes) continue;
    if (best == kNoBlock || block.bytes < blocks[best].bytes ||
        (block.bytes == blocks[best].bytes && block.address < blocks[best].address)) {
      best = i;
    }
  }
  return best;
}

BlockIndex FreeIndex::fit(const BlockTable& blocks, std::size_t bytes) const noexcept {
  const std::uint32_t own = bin_of(bytes);
  if (const BlockIndex found = smallest(blocks, own, bytes, kScanned); found != kNoBlock) return found;
  const std::uint32_t above = next_bin(own + 1);
  return above == kBinCount ? kNoBlock : smallest(blocks, above, bytes, kScanned);
}

BlockIndex FreeIndex::fit_exactly(const BlockTable& blocks, std::size_t bytes) const noexcept {
  constexpr std::size_t kAll = ~std::size_t{0};
  for (std::uint32_t bin = next_bin(bin_of(bytes)); bin < kBinCount; bin = next_bin(bin + 1)) {
    if (const BlockIndex found = smallest(blocks, bin, bytes, kAll); found != kNoBlock) return found;
  }
  return kNoBlock;
}

std::size_t FreeIndex::largest_bytes(const BlockTable& blocks) const noexcept {
  std::size_t largest = 0;
  for (std::uint32_t word = kBinCount / 64; word-- > 0;) {
    if (words_[word] == 0) continue;
    const auto bin = word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(words_[word]));
    for (BlockIndex i = heads_[bin]; i != kNoBlock; i = blocks[i].bin_next) {
      if (blocks[i].bytes > largest) largest = blocks[i].bytes;
    }
    break;
  }
  return largest;
}

}  // namespace cistern
