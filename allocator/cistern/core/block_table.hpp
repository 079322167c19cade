// Blocks as index-linked records, and the way from an address to the live block there.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cistern/base/check.hpp"
#include "cistern/base/ids.hpp"
#include "cistern/core/block.hpp"

namespace cistern {

/// Records and the table of addresses grow only in prepare(), never in create() or insert(), so that a hit allocates
/// nothing on the host. Memory: at most 32 x 1.25 bytes a block and 32 / 1.5 a live one, and a little to start with.
/// Threads: guarded by the heap's lock.
class BlockTable {
 public:
  BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  /// True if `blocks` more blocks can be created, and as many addresses inserted, without host allocation.
  bool ready_for(std::size_t blocks) const noexcept { return block_room_ >= blocks && live_room_ >= blocks; }
  /// Makes it so, with room to spare. Fails with std::bad_alloc and no change.
  void prepare(std::size_t blocks);

  /// A record to fill in: it holds what its last block left. Requires ready_for(1).
  BlockIndex create() noexcept {
    CISTERN_ASSERT(block_room_ != 0);
    --block_room_;
    const BlockIndex index = first_unused_;
    first_unused_ = (*this)[index].bin_next;
    return index;
  }
  BlockIndex create(const Block& block) noexcept {
    const BlockIndex index = create();
    (*this)[index] = block;
    return index;
  }
  void destroy(BlockIndex index) noexcept {
    (*this)[index].bin_next = first_unused_;
    first_unused_ = index;
    ++block_room_;
  }

  Block& operator[](BlockIndex index) noexcept { return *reinterpret_cast<Block*>(base_ + std::size_t{index} * 8); }
  const Block& operator[](BlockIndex index) const noexcept {
    return *reinterpret_cast<const Block*>(base_ + std::size_t{index} * 8);
  }

  /// Where the table of addresses holds a live block.
  struct Place {
    std::uint32_t bucket = 0;
    std::uint32_t entry = 0;
  };
  /// A live block, and its place: good until the lock is given up. kNoBlock if there is none.
  struct Live {
    BlockIndex block = kNoBlock;
    Place place;
  };

  /// Enters a live block under its address. Requires room, and that it is not there.
  Place insert(BlockIndex index, Address address) noexcept;
  /// The live block that starts at the address.
  Live find(Address address) const noexcept;
  /// Has the processor fetch what find() will look at. Threads: any, without the lock; a table that grows meanwhile makes
  /// it useless, no more.
  void fetch(Address address) const noexcept {
    const std::size_t at = static_cast<std::size_t>(hash_of(address) >> seen_shift_.load(std::memory_order_relaxed));
    __builtin_prefetch(reinterpret_cast<const void*>(seen_buckets_.load(std::memory_order_relaxed) + at * sizeof(Bucket)));
  }
  /// Takes a live block out. Requires that it is there.
  void erase(Live live, Address address) noexcept;

  std::size_t live_count() const noexcept { return buckets_.size() * kMeanEntries - live_room_; }
  std::size_t block_count() const noexcept { return blocks_.size() - 1 - block_room_; }

 private:
  static constexpr std::size_t kEntries = 6;
  static constexpr std::size_t kMeanEntries = 3;  // at most; one bucket in thirty overflows then

  /// Half a cache line: a hit is slow by the lines it waits for. Blocks made elsewhere need not lie so.
  struct alignas(32) Record : Block {};

  /// Half a cache line. Six tags, each a byte of the hash or 0 for no entry, are compared in one go; above them stands
  /// how many entries went past this bucket because it was full: a search goes on only if there are any.
  struct alignas(32) Bucket {
    std::uint64_t tags = 0;
    std::array<BlockIndex, kEntries> blocks{};
  };
  static constexpr std::uint64_t kOnes = 0x0101'0101'0101;
  static constexpr std::uint64_t kHighBits = kOnes << 7;
  static constexpr std::uint64_t kPast = std::uint64_t{1} << (8 * kEntries);

  /// Fibonacci hashing; addresses are multiples of at least 64.
  static std::uint64_t hash_of(Address address) noexcept {
    return static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15u;
  }
  std::size_t home(std::uint64_t hash) const noexcept { return static_cast<std::size_t>(hash >> shift_); }
  static std::uint64_t tag_of(std::uint64_t hash) noexcept { return ((hash >> 32) & 0xff) | 1; }
  /// The high bit of each byte that is zero; above the lowest such byte perhaps of others.
  static std::uint64_t zero_bytes(std::uint64_t tags) noexcept { return (tags - kOnes) & ~tags & kHighBits; }
  static std::uint32_t first_byte(std::uint64_t high_bits) noexcept {
    return static_cast<std::uint32_t>(std::countr_zero(high_bits)) / 8;
  }
  static bool passed(const Bucket& bucket) noexcept { return bucket.tags >= kPast; }
  void rehash(std::size_t bucket_count);

  std::vector<Record> blocks_;          // the first is that of kNoBlock
  std::byte* base_ = nullptr;           // of blocks_
  BlockIndex first_unused_ = kNoBlock;  // chained through bin_next
  std::size_t block_room_ = 0;          // unused records
  std::vector<Bucket> buckets_;
  Bucket* bucket_ = nullptr;            // of buckets_
  std::size_t mask_ = 0;
  unsigned shift_ = 0;
  std::size_t live_room_ = 0;
  std::atomic<std::uintptr_t> seen_buckets_{0};  // as bucket_ and shift_, for who holds no lock
  std::atomic<unsigned> seen_shift_{0};
};

[[gnu::always_inline]] inline BlockTable::Place BlockTable::insert(BlockIndex index, Address address) noexcept {
  const std::uint64_t hash = hash_of(address);
  std::size_t at = home(hash);
  std::uint64_t unused = zero_bytes(bucket_[at].tags);
  while (unused == 0) [[unlikely]] {
    bucket_[at].tags += kPast;
    at = (at + 1) & mask_;
    unused = zero_bytes(bucket_[at].tags);
  }
  const std::uint32_t entry = first_byte(unused);
  bucket_[at].tags |= tag_of(hash) << (8 * entry);
  bucket_[at].blocks[entry] = index;
  --live_room_;
  return {static_cast<std::uint32_t>(at), entry};
}

[[gnu::always_inline]] inline BlockTable::Live BlockTable::find(Address address) const noexcept {
  const std::uint64_t hash = hash_of(address);
  const std::uint64_t tags = tag_of(hash) * kOnes;
  for (std::size_t at = home(hash);; at = (at + 1) & mask_) {
    const Bucket& bucket = bucket_[at];
    for (std::uint64_t alike = zero_bytes((bucket.tags ^ tags) & (kPast - 1)); alike != 0; alike &= alike - 1) {
      const std::uint32_t entry = first_byte(alike);
      const BlockIndex index = bucket.blocks[entry];
      if ((*this)[index].address() == address) [[likely]] return {index, {static_cast<std::uint32_t>(at), entry}};
    }
    if (!passed(bucket)) return {};
  }
}

[[gnu::always_inline]] inline void BlockTable::erase(Live live, Address address) noexcept {
  CISTERN_ASSERT(live.block != kNoBlock);
  bucket_[live.place.bucket].tags &= ~(std::uint64_t{0xff} << (8 * live.place.entry));
  std::size_t at = home(hash_of(address));
  for (; at != live.place.bucket; at = (at + 1) & mask_) [[unlikely]] bucket_[at].tags -= kPast;
  ++live_room_;
}

}  // namespace cistern
