// The hit path of a heap: taking from a free block and giving back, inline where it is done for each request (a call
// costs about ten instructions, and there would be ten of them).
#pragma once

#include <algorithm>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/heap.hpp"

namespace cistern {

[[gnu::always_inline]] inline BlockIndex Heap::find(const Need& need) noexcept {
  end_rest();
  return index_[need.block_class].fit(blocks_, need.span_bytes(rules_.least_block_bytes));
}

inline Address Heap::place(const Block& block, const Need& need) const noexcept {
  // Without ranges of their own, small blocks gather at the top end of large ones, where they split no large hole.
  if (!rules_.separate_small_ranges && need.small && block.bytes() >= rules_.small_block_bytes) {
    return round_down(block.address() + block.bytes() - need.granted_bytes, need.alignment);
  }
  return CISTERN_MUTANT(I7_alignment_forgotten) ? block.address() : round_up(block.address(), need.alignment);
}

[[gnu::always_inline]] inline Address Heap::take(BlockIndex index, const Need& need) noexcept {
  return take_at(index, place(blocks_[index], need), need);
}

[[gnu::always_inline]] inline Address Heap::take_at(BlockIndex index, Address address, const Need& need) noexcept {
  const Block& found = blocks_[index];
  CISTERN_ASSERT(found.state() == BlockState::kFree);
  const std::size_t block_class = need.block_class;
  const std::size_t front = address - found.address();
  const std::size_t back = found.bytes() - front - need.granted_bytes;
  BlockIndex taken = index;
  gauges_.free_out(block_class, need.granted_bytes);
  if (front == 0 && back == 0) {
    remove_free(index, block_class);
    blocks_[index].set_state(BlockState::kActive);
  } else if (front == 0) {
    // The free block keeps its record, and mostly its bin: what is granted gets a new one in front of it.
    taken = link_new({address, need.granted_bytes, block_class, BlockState::kActive}, found.prev, index);
    const std::size_t lost = CISTERN_MUTANT(I1_rest_too_short) ? rules_.least_block_bytes : 0;
    resize_free(index, block_class, address + need.granted_bytes, back - lost);
  } else {
    taken = link_new({address, need.granted_bytes, block_class, BlockState::kActive}, index, found.next);
    const Block::Stamp last_free = found.last_free();
    resize_free(index, block_class, found.address(), front);
    if (back != 0) {
      const Block piece(address + need.granted_bytes, back, block_class, BlockState::kActive);
      const BlockIndex rest = link_new(piece, taken, blocks_[taken].next);
      blocks_[rest].set_last_free(CISTERN_MUTANT(I13_split_forgets_the_free) ? 0 : last_free);
      insert_free(rest, block_class);
    }
  }
  blocks_[taken].set_requested_bytes(need.requested_bytes);
  latest_ = {{taken, blocks_.insert(taken, address)}, address, need.granted_bytes, need.alignment, false};
  gauges_.took(block_class, need.requested_bytes, need.granted_bytes);
  log(EventKind::kAllocate, address, need.requested_bytes, need.granted_bytes, stream);
  return address;
}

[[gnu::always_inline]] inline void Heap::give(BlockTable::Live live, Address address) noexcept {
  const Block& block = blocks_[live.block];
  CISTERN_ASSERT(block.state() == BlockState::kActive);
  gauges_.gave(block.block_class(), block.requested_bytes(), block.bytes());
  log(EventKind::kFree, address, block.requested_bytes(), block.bytes(), stream);
  epochs_.count_free();
  if (address == latest_.address) {
    latest_.resting = true;
    return;
  }
  latest_.address = 0;  // no block rests: find_live() looked
  release(live, address);
}

[[gnu::always_inline]] inline void Heap::release(Live live, Address address) noexcept {
  if (!CISTERN_MUTANT(I9_freed_address_stays_live)) blocks_.erase(live, address);
  const std::size_t block_class = blocks_[live.block].block_class();
  const std::size_t bytes = blocks_[live.block].bytes();
  become_free(live.block, block_class, epochs_.stamp());
  gauges_.free_in(block_class, bytes);
}

[[gnu::always_inline]] inline BlockTable::Live Heap::find_live(Address address) noexcept {
  if (latest_.resting && !CISTERN_MUTANT(I9_resting_block_stays_live)) end_rest();
  if (address == latest_.address) return latest_.live;
  return blocks_.find(address);
}

[[gnu::always_inline]] inline bool Heap::rests_for(const Need& need) const noexcept {
  if (!latest_.resting || latest_.bytes != need.granted_bytes) return false;
  return latest_.alignment == need.alignment || CISTERN_MUTANT(I7_rest_of_any_alignment);
}

[[gnu::always_inline]] inline Address Heap::retake(const Need& need) noexcept {
  latest_.resting = false;
  blocks_[latest_.live.block].set_requested_bytes(need.requested_bytes);
  gauges_.took(need.block_class, need.requested_bytes, need.granted_bytes);
  log(EventKind::kAllocate, latest_.address, need.requested_bytes, need.granted_bytes, stream);
  return latest_.address;
}

inline bool Heap::beside_memory(const Block& block) const noexcept {
  // No block is like a hole.
  return blocks_[block.prev].state() != BlockState::kHole || blocks_[block.next].state() != BlockState::kHole;
}

[[gnu::always_inline]] inline void Heap::insert_free(BlockIndex index, std::size_t block_class) noexcept {
  Block& block = blocks_[index];
  const bool split = beside_memory(block);
  block.set_split(split);
  if (!split) [[unlikely]] gauges_.whole_in(block_class, block.bytes());
  gauges_.free_block_in(block_class);
  index_[block_class].insert(blocks_, index);
}

[[gnu::always_inline]] inline void Heap::remove_free(BlockIndex index, std::size_t block_class) noexcept {
  const Block& block = blocks_[index];
  if (!block.split()) [[unlikely]] gauges_.whole_out(block_class, block.bytes());
  gauges_.free_block_out(block_class);
  index_[block_class].remove(blocks_, index);
}

[[gnu::always_inline]] inline void Heap::resize_free(BlockIndex index, std::size_t block_class, Address address,
                                                     std::size_t bytes) noexcept {
  Block& block = blocks_[index];
  const bool was_split = block.split();
  const bool split = beside_memory(block);
  if (!was_split || !split) [[unlikely]] {
    if (!was_split) gauges_.whole_out(block_class, block.bytes());
    if (!split) gauges_.whole_in(block_class, bytes);
    gauges_.see_whole_blocks(block_class);
    block.set_split(split);
  }
  block.set_address(address);
  index_[block_class].resize(blocks_, index, bytes);
}

[[gnu::always_inline]] inline BlockIndex Heap::link_new(const Block& block, BlockIndex prev, BlockIndex next) noexcept {
  const BlockIndex created = blocks_.create(block);  // never moves blocks: has_room() was required
  blocks_[created].prev = prev;
  blocks_[created].next = next;
  blocks_[next].prev = created;
  blocks_[prev].next = created;
  return created;
}

[[gnu::always_inline]] inline void Heap::unlink(BlockIndex index) noexcept {
  const Block& block = blocks_[index];
  blocks_[block.next].prev = block.prev;
  blocks_[block.prev].next = block.next;
  blocks_.destroy(index);
}

[[gnu::always_inline]] inline void Heap::become_free(BlockIndex index, std::size_t block_class,
                                                     Block::Stamp last_free) noexcept {
  const Address address = blocks_[index].address();
  std::size_t bytes = blocks_[index].bytes();
  const BlockIndex prev = blocks_[index].prev;
  const BlockIndex next = blocks_[index].next;
  const bool join_prev = blocks_[prev].state() == BlockState::kFree && !CISTERN_MUTANT(I2_prev_not_joined);
  const bool join_next = blocks_[next].state() == BlockState::kFree && !CISTERN_MUTANT(I2_next_not_joined);
  if (!join_prev && !join_next) {
    blocks_[index].set_last_free(last_free);
    insert_free(index, block_class);
    return;
  }
  // A free neighbour grows over it, and mostly keeps its bin.
  unlink(index);
  if (!join_prev) {
    blocks_[next].set_last_free(std::max(blocks_[next].last_free(), last_free));
    resize_free(next, block_class, address, bytes + blocks_[next].bytes());
    return;
  }
  if (join_next) {
    bytes += blocks_[next].bytes();
    last_free = std::max(last_free, blocks_[next].last_free());
    remove_free(next, block_class);
    unlink(next);
  }
  if (!CISTERN_MUTANT(I13_older_free_wins)) {
    blocks_[prev].set_last_free(std::max(blocks_[prev].last_free(), last_free));
  }
  resize_free(prev, block_class, blocks_[prev].address(), blocks_[prev].bytes() + bytes);
}

}  // namespace cistern
