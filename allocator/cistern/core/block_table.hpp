// Blocks as index-linked records, and the way from an address to the live block there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cistern/base/check.hpp"
#include "cistern/base/ids.hpp"

namespace cistern {

using BlockIndex = std::uint32_t;
inline constexpr BlockIndex kNoBlock = 0xffffffffu;

enum class BlockState : std::uint8_t {
  kFree,
  kActive,   ///< Granted.
  kPending,  ///< Freed, a stream still uses it.
  kHole,     ///< Address space without memory; counts in no statistic.
  kClaimed,  ///< Taken out of circulation by a growth or trim in progress; memory may come or go.
};

struct Block {
  Address address = 0;
  std::size_t bytes = 0;
  std::size_t requested_bytes = 0;  ///< Active and pending: what the caller asked for.
  std::uint64_t last_free = 0;      ///< Free: number of the last free inside it, for promise I13.
  BlockIndex prev = kNoBlock;       ///< Neighbours by address within the range.
  BlockIndex next = kNoBlock;
  BlockIndex bin_prev = kNoBlock;   ///< Neighbours within the bin, when free.
  BlockIndex bin_next = kNoBlock;
  std::uint32_t range = 0;          ///< Slot of its range within the heap.
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
  bool ready_for(std::size_t blocks) const noexcept {
    return unused_count_ + (blocks_.capacity() - blocks_.size()) >= blocks && (live_count_ + blocks) * 2 <= slots_.size();
  }
  /// Makes it so, with room to spare. Fails with std::bad_alloc and no change.
  void prepare(std::size_t blocks);

  /// Requires ready_for(1).
  BlockIndex create(const Block& block);
  void destroy(BlockIndex index) noexcept;

  Block& operator[](BlockIndex index) noexcept { return blocks_[index]; }
  const Block& operator[](BlockIndex index) const noexcept { return blocks_[index]; }

  /// Enters a live block under its address. Requires room, and that it is not there.
  void insert(BlockIndex index) noexcept;
  /// The live block that starts at the address, or kNoBlock.
  BlockIndex find(Address address) const noexcept;
  /// Takes a live block out. Requires that it is there.
  void erase(BlockIndex index) noexcept;

  std::size_t live_count() const noexcept { return live_count_; }
  std::size_t block_count() const noexcept { return blocks_.size() - unused_count_; }

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
  std::size_t slot_of(BlockIndex index) const noexcept;
  void rehash(std::size_t slot_count);

  std::vector<Block> blocks_;
  BlockIndex first_unused_ = kNoBlock;  // chained through bin_next
  std::size_t unused_count_ = 0;
  std::vector<Slot> slots_;
  unsigned shift_ = 0;
  std::size_t live_count_ = 0;
};

}  // namespace cistern
