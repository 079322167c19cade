// The blocks of one (device, pool, stream): its ranges, its free index, its lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/base/spin_lock.hpp"
#include "cistern/core/block_table.hpp"
#include "cistern/core/budget.hpp"
#include "cistern/core/event_log.hpp"
#include "cistern/core/free_epochs.hpp"
#include "cistern/core/free_index.hpp"
#include "cistern/core/gauges.hpp"
#include "cistern/core/heap_types.hpp"
#include "cistern/core/stream_ledger.hpp"

namespace cistern {

/// Threads: lock() guards everything; every member but the constants requires it held.
class Heap {
 public:
  Heap(std::uint32_t number, StreamId stream, PoolId pool, Budget& budget, const HeapRules& rules);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const std::uint32_t number;
  const StreamId stream;
  const PoolId pool;
  Budget& budget;

  SpinLock& lock() const noexcept { return lock_; }

  // --- the hit path: O(1), no host allocation -------------------------------------------------------------------
  /// A free block for the need, or kNoBlock.
  BlockIndex find(const Need& need) noexcept;
  /// As find, but looks through whole bins. Cost: O(blocks of the bin).
  BlockIndex find_exactly(const Need& need) noexcept;
  /// Room in our own tables for a take. When false, make_room() first.
  bool has_room() const noexcept { return blocks_.ready_for(kRoom); }
  void make_room() { blocks_.prepare(kRoom); }
  /// True if taking stays below this heap's credit, so that device peaks remain exact without the ledger.
  bool admits(const Need& need) noexcept {
    return gauges_.admits(need.block_class, need.requested_bytes, need.granted_bytes);
  }
  /// Splits the free block and grants its part. Requires what find() found, has_room() and admits().
  Address take(BlockIndex block, const Need& need) noexcept;
  /// As take, at an address of the caller's choice within the free block.
  Address take_at(BlockIndex block, Address address, const Need& need) noexcept;
  /// The live block at the address; its block is kNoBlock if there is none.
  BlockTable::Live find_live(Address address) noexcept;
  /// Called ahead of find_live(), before the lock is taken: what it will wait for comes meanwhile.
  void fetch_live(Address address) const noexcept { blocks_.fetch(address); }
  /// Frees a live block that no other stream used: coalesces, and is reusable at once.
  void give(BlockTable::Live live, Address address) noexcept;

  // --- the resting block --------------------------------------------------------------------------------------------
  // What was taken last, and given back before anything else changed, rests: it is free, but not joined with its
  // neighbours and in no bin yet. A need like the one before would find the same place again, so it gets the block as
  // it lies. To rest moves no block, it only saves work. Whatever changes blocks, or looks at them, ends the rest
  // first; DeviceLedger does when it locks all heaps.
  /// True if find() and take() for the need would end with the block that rests.
  bool rests_for(const Need& need) const noexcept;
  /// Grants the resting block. Requires rests_for() and admits().
  Address retake(const Need& need) noexcept;
  /// The latest take is as any other from now on, and its block, if it rests, like any free block.
  void end_rest() noexcept {
    if (latest_.resting) [[unlikely]] release_resting();
    latest_.address = 0;
  }

  // --- streams ------------------------------------------------------------------------------------------------------
  bool used_by_streams(BlockIndex block) const noexcept { return blocks_[block].streams(); }
  void record_use(BlockIndex block, StreamId stream);
  /// Frees a live block that other streams used: it is pending until settle(). Returns the streams to fence.
  std::vector<StreamLedger::OpenFence> give_pending(BlockIndex block);
  /// The last fence of a pending block is done.
  void settle(BlockIndex block) noexcept;
  StreamLedger& streams() noexcept { return streams_; }

  // --- growing and trimming, in two steps around a source call ----------------------------------------------------------
  /// A new range: one hole, or one free block when it came with memory. May allocate; fails with no change.
  void add_range(const SourceRange& range, RangeKind kind, bool committed);
  /// Claims the run of free blocks and holes for the need that takes the fewest new bytes (ties: lowest address), and
  /// up to wish_bytes of holes behind it. Nothing if no range has such a run. Looks at the newest kScannedHoles holes of
  /// each size only, unless none of them will do. Cost: O(granules of the need), or with all holes O(holes) times that.
  std::optional<Claim> claim_growth(const Need& need, std::size_t wish_bytes);
  /// Claims the free blocks and holes that hold [address, address + bytes). Requires that `first` holds the address, and
  /// that nothing else lies there.
  Claim claim_place(BlockIndex first, Address address, std::size_t bytes);
  /// Claims up to `bytes` of whole granules inside one free block whose last free lies in an epoch up to `idle_epoch`;
  /// wholly free ranges only if whole_ranges. The smallest that is enough, else the largest; nothing if there are none.
  /// Cost: O(free blocks of at least a granule in a few bins), mostly those before the first that is right.
  std::optional<Claim> claim_idle(std::size_t bytes, std::uint64_t idle_epoch, bool whole_ranges);
  /// All frees so far lie in epochs up to the one returned, later ones do not.
  std::uint64_t end_epoch() noexcept;
  /// The claimed memory is all committed: one free block, coalesced.
  void finish_commit(const Claim& claim) noexcept;
  /// The claimed memory is all decommitted: one hole, merged.
  void finish_decommit(const Claim& claim) noexcept;
  /// As before the claim.
  void cancel(const Claim& claim) noexcept;
  /// Among ranges of the need's kind with no block in use and no free after idle_epoch, that with the most memory;
  /// nothing if there is none. Cost: O(blocks).
  std::optional<std::uint32_t> find_vacant_range(const Need& need, std::uint64_t idle_epoch) const noexcept;
  /// Takes such a range over from another heap of the pool. Requires both locked, and that the address map is told
  /// before the locks are given up. May allocate; fails with no change. Cost: O(blocks of the range).
  void adopt_range(Heap& from, std::uint32_t range);
  /// Requires a range that is one hole. Its address space is the caller's to give back.
  void remove_range(std::uint32_t range) noexcept;

  /// The class of the claimed blocks.
  std::size_t class_of(const Claim& claim) const noexcept {
    return ranges_[claim.range_slot].small ? kSmallBlocks : kLargeBlocks;
  }

  // --- looking: at blocks only when none rests ------------------------------------------------------------------------
  const Range& range(std::uint32_t slot) const noexcept { return ranges_[slot]; }
  std::uint32_t range_count() const noexcept { return static_cast<std::uint32_t>(ranges_.size()); }
  /// The first of the blocks that tile the range; kNoBlock if the slot is unused.
  BlockIndex first_block(std::uint32_t slot) const noexcept { return blocks_[ranges_[slot].border].next; }
  const Block& block(BlockIndex index) const noexcept { return blocks_[index]; }
  std::size_t committed_bytes() const noexcept { return committed_bytes(kSmallBlocks) + committed_bytes(kLargeBlocks); }
  std::size_t committed_bytes(std::size_t block_class) const noexcept { return committed_bytes_[block_class]; }
  std::size_t largest_free_bytes() const noexcept;
  Gauges& gauges() noexcept { return gauges_; }
  const Gauges& gauges() const noexcept { return gauges_; }
  EventBuffer& events() noexcept { return events_; }
  void log(EventKind kind, Address address, std::size_t bytes, std::size_t granted = 0, StreamId of = {},
           FenceId fence = {}) noexcept {
    if (events_.recording()) [[unlikely]] write_event(kind, address, bytes, granted, of, fence);
  }

  /// Checks promises I1-I6; aborts on a broken one. Cost: O(blocks).
  void audit() const;

 private:
  static constexpr std::size_t kRoom = 4;  // blocks that one operation may create
  static constexpr std::size_t kHoleBins = 12;
  /// Of a bin. More are as many cache misses, and no trace or generator has them.
  static constexpr std::size_t kScannedHoles = 128;
  using Live = BlockTable::Live;
  struct Window;
  struct IdleRule;
  struct Idle;
  /// A free block that is in no bin yet.
  void insert_free(BlockIndex block, std::size_t block_class) noexcept;
  void remove_free(BlockIndex block, std::size_t block_class) noexcept;
  /// A free block gets another start and size; its neighbours are what they will be.
  void resize_free(BlockIndex block, std::size_t block_class, Address address, std::size_t bytes) noexcept;
  /// A live block leaves the table of addresses and becomes free.
  void release(Live live, Address address) noexcept;
  void release_resting() noexcept;
  /// A block that is in no bin becomes free, and one with its free neighbours.
  void become_free(BlockIndex block, std::size_t block_class, Block::Stamp last_free) noexcept;
  /// Free bytes beside a block with memory cannot be given back whole: they count as split.
  bool beside_memory(const Block& block) const noexcept;
  BlockIndex link_new(const Block& block, BlockIndex prev, BlockIndex next) noexcept;
  void unlink(BlockIndex block) noexcept;
  void write_event(EventKind kind, Address address, std::size_t bytes, std::size_t granted, StreamId of,
                   FenceId fence) noexcept;
  /// Makes the block a hole, merged with the holes beside it.
  void become_hole(BlockIndex block) noexcept;
  bool is_hole(BlockIndex block) const noexcept;
  bool vacant(BlockIndex block) const noexcept;
  std::uint32_t range_of(BlockIndex block) const noexcept;
  void consider_window(BlockIndex first, std::size_t bytes, Window& best) const noexcept;
  /// Looks at up to most_holes of each bin.
  Window best_window(std::size_t block_class, std::size_t bytes, std::size_t most_holes) const noexcept;
  /// Requires room for the pieces.
  void claim_blocks(BlockIndex first, BlockIndex last, Claim& claim) noexcept;
  /// A neighbour's state changed: a free block beside it may count as split now, or no longer.
  void recount_split(BlockIndex block) noexcept;
  /// The list of holes of its class and of about its size.
  BlockIndex& holes_like(const Block& hole) noexcept;
  void link_hole(BlockIndex block) noexcept;
  void unlink_hole(BlockIndex block) noexcept;
  void resize_hole(BlockIndex block, std::size_t bytes) noexcept;
  /// Cuts a hole after `bytes`. Returns the rest.
  BlockIndex split_hole(BlockIndex block, std::size_t bytes) noexcept;
  /// Cuts a free block in two. Returns the second, which is free too: who calls this makes one of them something else.
  BlockIndex split_free(BlockIndex block, Address at) noexcept;
  BlockIndex split_vacant(BlockIndex block, Address at) noexcept;
  /// Cuts up to `bytes` of whole granules out of a free block that has some. Returns the block of them, free.
  BlockIndex isolate_granules(BlockIndex block, std::size_t bytes) noexcept;
  Address place(const Block& block, const Need& need) const noexcept;
  using Seen = std::array<std::uint64_t, kGaugeCount>;
  struct Indexed {
    std::size_t free_blocks = 0;
    std::size_t holes = 0;
  };
  void audit_range(std::uint32_t slot, Seen& seen, Indexed& indexed) const;
  void audit_index(const Indexed& expected) const;
  std::size_t whole_granules(const Block& block, bool whole_ranges) const noexcept;
  std::size_t idle_bytes(const Block& block, const IdleRule& rule) const noexcept;
  /// Of idle blocks the smallest that is enough, and the largest; ties to the lowest bin, and there to the newest.
  Idle least_idle(const FreeIndex& index, const IdleRule& rule) const noexcept;
  Idle most_idle(const FreeIndex& index, const IdleRule& rule) const noexcept;
  const HeapRules rules_;
  mutable SpinLock lock_;
  BlockTable blocks_;
  std::array<FreeIndex, kClassCount> index_;
  /// By class, and by powers of two in granules; chained through the bin links.
  std::array<std::array<BlockIndex, kHoleBins>, kClassCount> holes_{};
  std::vector<Range> ranges_;
  std::uint32_t unused_slot_ = 0;  // none before it
  std::array<std::size_t, kClassCount> committed_bytes_{};
  FreeEpochs epochs_;
  /// The latest take, while no block has changed since but that it may have been given back.
  struct Latest {
    Live live;
    Address address = 0;  ///< 0: there is none.
    std::size_t bytes = 0;
    std::size_t alignment = 0;
    bool resting = false;
  };
  Latest latest_;
  Gauges gauges_;
  StreamLedger streams_;
  EventBuffer events_;
};

}  // namespace cistern
