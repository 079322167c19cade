#include "cistern/core/block_table.hpp"

#include <algorithm>
#include <utility>

namespace cistern {
namespace {

constexpr std::size_t kFirstBuckets = 16;
constexpr std::size_t kLeastStep = 16;

}  // namespace

BlockTable::BlockTable() : blocks_(1), base_(reinterpret_cast<std::byte*>(blocks_.data())) {
  blocks_[kNoBlock].set_state(BlockState::kHole);
  rehash(kFirstBuckets);
}

void BlockTable::prepare(std::size_t blocks) {
  // Each may throw, and leaves everything as it was when it does.
  if (block_room_ < blocks) {
    const std::size_t first = blocks_.size();
    const std::size_t count = block_count() + blocks;
    const std::size_t size = 1 + count + std::max(count / 4, kLeastStep);
    blocks_.reserve(size);  // resize() alone might double
    blocks_.resize(size);
    base_ = reinterpret_cast<std::byte*>(blocks_.data());
    for (std::size_t number = size; number-- > first;) destroy(static_cast<BlockIndex>(number * kIndexStep));
  }
  std::size_t buckets = buckets_.size();
  while (buckets * kMeanEntries < live_count() + blocks) buckets *= 2;
  if (buckets != buckets_.size()) rehash(buckets);
}

void BlockTable::rehash(std::size_t bucket_count) {
  std::vector<Bucket> old(bucket_count);
  const std::size_t live = live_count();
  std::swap(old, buckets_);
  bucket_ = buckets_.data();
  live_room_ = bucket_count * kMeanEntries;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(bucket_count));
  mask_ = bucket_count - 1;
  seen_buckets_.store(reinterpret_cast<std::uintptr_t>(bucket_), std::memory_order_relaxed);
  seen_shift_.store(shift_, std::memory_order_relaxed);
  for (const Bucket& bucket : old) {
    for (std::uint32_t entry = 0; entry < kEntries; ++entry) {
      if ((bucket.tags >> (8 * entry) & 0xff) != 0) {
        insert(bucket.blocks[entry], (*this)[bucket.blocks[entry]].address());
      }
    }
  }
  CISTERN_ASSERT(live_count() == live);
}

}  // namespace cistern
