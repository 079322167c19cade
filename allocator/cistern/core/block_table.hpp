// Blocks as index-linked records, and the way from an address to the live block there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cistern/base/check.hpp"
#include "cistern/base/ids.hpp"

namespace cistern {

using BlockIndex = std::uint32_t;
/// Has a record all the same, as of a hole of no bytes whose links lead to itself: who follows a link need not ask first
/// whether it leads anywhere, and may write into what it leads to; nobody reads the backward links of that record.
inline constexpr BlockIndex kNoBlock = 0;

enum class BlockState : std::uint8_t {
  kFree,
  kActive,   ///< Granted.
  kPending,  ///< Freed, a stream still uses it.
  kHole,     ///< Address space without memory; counts in no statistic.
  kClaimed,  ///< Taken out of circulation by a growth or trim in progress; memory may come or go.
};

/// One cache line.
struct alignas(64) Block {
  Address address = 0;
  std::size_t bytes = 0;
  std::size_t requested_bytes = 0;  ///< Active and pending: what the caller asked for.
  std::uint64_t last_free = 0;      ///< Free: number of the last free inside it, for promise I13.
  BlockIndex prev = kNoBlock;       ///< Neighbours by address within the range.
  BlockIndex next = kNoBlock;
  BlockIndex bin_prev = kNoBlock;   ///< Neighbours within the bin, when free.
  BlockIndex bin_next = kNoBlock;
  std::uint32_t range = 0;          ///< Slot of its range within the heap.
  std::uint8_t block_class = 0;     ///< That of its range: kSmallBlocks or kLargeBlocks.
  std::uint16_t bin = 0;            ///< Of a block in the free index.
  BlockState state = BlockState::kFree;
  bool split = false;               ///< Free and counted as inactive-split.
  bool streams = false;             ///< Other streams were recorded: a free has to ask the stream ledger.
};

/// Slabs and the open-addressing table grow only in prepare(), never in create() or insert(), so that a hit allocates
/// nothing on the host. Threads: guarded by the heap's lock.
class BlockTable {
 public:
  BlockTable();

  /// True if `blocks` more blocks can be created, and as many addresses inserted, without host allocation.
  bool ready_for(std::size_t blocks) const noexcept { return block_room_ >= blocks && live_room_ >= blocks; }
  /// Makes it so, with room to spare. Fails with std::bad_alloc and no change.
  void prepare(std::size_t blocks);

  /// A record to fill in: it holds what its last block left. Requires ready_for(1).
  BlockIndex create() noexcept {
    CISTERN_ASSERT(block_room_ != 0);
    --block_room_;
    const BlockIndex index = first_unused_;
    first_unused_ = blocks_[index].bin_next;
    return index;
  }
  BlockIndex create(const Block& block) noexcept {
    const BlockIndex index = create();
    blocks_[index] = block;
    return index;
  }
  void destroy(BlockIndex index) noexcept {
    blocks_[index].bin_next = first_unused_;
    first_unused_ = index;
    ++block_room_;
  }

  Block& operator[](BlockIndex index) noexcept { return blocks_[index]; }
  const Block& operator[](BlockIndex index) const noexcept { return blocks_[index]; }

  /// Enters a live block under its address. Requires room, and that it is not there. Returns its slot.
  std::size_t insert(BlockIndex index) noexcept {
    const std::uint32_t hash = hash_of(blocks_[index].address);
    std::size_t slot = home(hash);
    while (slots_[slot].index != kNoBlock) slot = (slot + 1) & mask_;
    slots_[slot] = Slot{hash, index};
    --live_room_;
    return slot;
  }
  /// The live block that starts at the address, or kNoBlock.
  BlockIndex find(Address address) const noexcept { return at(find_slot(address)); }
  /// Its slot in the table, good until something is erased or room prepared; at() is kNoBlock if there is none.
  std::size_t find_slot(Address address) const noexcept {
    const std::uint32_t hash = hash_of(address);
    std::size_t slot = home(hash);
    while (slots_[slot].index != kNoBlock &&
           (slots_[slot].hash != hash || blocks_[slots_[slot].index].address != address)) {
      slot = (slot + 1) & mask_;
    }
    return slot;
  }
  BlockIndex at(std::size_t slot) const noexcept { return slots_[slot].index; }
  /// Takes a live block out. Requires that it is there.
  void erase(BlockIndex index) noexcept { erase_slot(find_slot(blocks_[index].address)); }
  void erase_slot(std::size_t slot) noexcept;

  std::size_t live_count() const noexcept { return slots_.size() / 2 - live_room_; }
  std::size_t block_count() const noexcept { return blocks_.size() - 1 - block_room_; }

 private:
  /// The hash is kept beside the index, so that probing and shifting touch no block.
  struct Slot {
    std::uint32_t hash = 0;
    BlockIndex index = kNoBlock;
  };

  static std::uint32_t hash_of(Address address) noexcept {
    // Fibonacci hashing; addresses are multiples of at least 64.
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15u) >> 32);
  }
  std::size_t home(std::uint32_t hash) const noexcept { return hash >> shift_; }
  void rehash(std::size_t slot_count);

  std::vector<Block> blocks_;           // the first is that of kNoBlock
  BlockIndex first_unused_ = kNoBlock;  // chained through bin_next
  std::size_t block_room_ = 0;          // unused records
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 0;
  std::size_t live_room_ = 0;  // up to half of the slots
};

inline void BlockTable::erase_slot(std::size_t gap) noexcept {
  CISTERN_ASSERT(slots_[gap].index != kNoBlock);
  // Backward shift: no tombstones, so the cost does not grow with the age of the table.
  for (std::size_t probe = (gap + 1) & mask_; slots_[probe].index != kNoBlock; probe = (probe + 1) & mask_) {
    const std::size_t distance_home = (probe - home(slots_[probe].hash)) & mask_;
    const std::size_t distance_gap = (probe - gap) & mask_;
    if (distance_home >= distance_gap) {
      slots_[gap] = slots_[probe];
      gap = probe;
    }
  }
  slots_[gap] = Slot{};
  ++live_room_;
}

}  // namespace cistern
