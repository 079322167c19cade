#include "cistern/core/heap.hpp"

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"

namespace cistern {

Heap::Heap(std::uint32_t number_, StreamId stream_, PoolId pool_, Budget& budget_, const HeapRules& rules)
    : number(number_), stream(stream_), pool(pool_), budget(budget_), rules_(rules) {
  blocks_.prepare(kRoom);
}

BlockIndex Heap::find(const Need& need) const noexcept {
  return index_[index_number(need.small)].fit(blocks_, need.span_bytes(rules_.least_block_bytes));
}

BlockIndex Heap::find_exactly(const Need& need) const noexcept {
  const std::size_t bytes = need.span_bytes(rules_.least_block_bytes);
  return index_[index_number(need.small)].fit_exactly(blocks_, bytes);
}

Address Heap::place(const Block& block, const Need& need) const noexcept {
  // Without ranges of their own, small blocks gather at the top end of large ones, where they split no large hole.
  if (need.small && !rules_.separate_small_ranges && block.bytes >= rules_.small_block_bytes) {
    return round_down(block.address + block.bytes - need.granted_bytes, need.alignment);
  }
  return round_up(block.address, need.alignment);
}

Address Heap::take(BlockIndex index, const Need& need) noexcept {
  CISTERN_ASSERT(blocks_[index].state == BlockState::kFree);
  remove_free(index);
  const Address address = place(blocks_[index], need);
  if (const std::size_t front = address - blocks_[index].address; front != 0) {
    const BlockIndex rest = split(index, front);
    insert_free(index);
    index = rest;
  }
  if (blocks_[index].bytes > need.granted_bytes) {
    const BlockIndex rest = split(index, need.granted_bytes);
    blocks_[index].state = BlockState::kActive;
    insert_free(rest);
  }
  Block& block = blocks_[index];
  block.state = BlockState::kActive;
  block.requested_bytes = need.requested_bytes;
  block.streams = false;
  // A free block that ended at the front stays split or becomes so: its neighbour is in use now.
  blocks_.insert(index);
  gauges_.took(need.requested_bytes, need.granted_bytes);
  log(EventKind::kAllocate, block.address, need.requested_bytes, need.granted_bytes, stream);
  return block.address;
}

void Heap::give(BlockIndex index) noexcept {
  Block& block = blocks_[index];
  CISTERN_ASSERT(block.state == BlockState::kActive);
  blocks_.erase(index);
  gauges_.gave(block.requested_bytes, block.bytes);
  gauges_.deactivated(block.bytes);
  log(EventKind::kFree, block.address, block.requested_bytes, block.bytes, stream);
  block.state = BlockState::kFree;
  block.last_free = ++free_count_;
  coalesce_and_insert(index);
}

void Heap::record_use(BlockIndex index, StreamId user) {
  streams_.record_use(index, user);
  blocks_[index].streams = true;
  log(EventKind::kRecordStream, blocks_[index].address, 0, 0, user);
}

std::vector<StreamLedger::OpenFence> Heap::give_pending(BlockIndex index) {
  Block& block = blocks_[index];
  std::vector<StreamLedger::OpenFence> users = streams_.begin_pending(index);
  blocks_.erase(index);
  gauges_.gave(block.requested_bytes, block.bytes);
  log(EventKind::kFree, block.address, block.requested_bytes, block.bytes, stream);
  block.state = BlockState::kPending;
  return users;
}

void Heap::settle(BlockIndex index) noexcept {
  Block& block = blocks_[index];
  CISTERN_ASSERT(block.state == BlockState::kPending);
  gauges_.deactivated(block.bytes);
  log(EventKind::kBlockReady, block.address, block.bytes, block.bytes, stream);
  block.state = BlockState::kFree;
  block.streams = false;
  block.last_free = ++free_count_;
  coalesce_and_insert(index);
}

void Heap::insert_free(BlockIndex index) noexcept {
  Block& block = blocks_[index];
  const auto in_use = [&](BlockIndex neighbour) {
    return neighbour != kNoBlock && blocks_[neighbour].state != BlockState::kHole;
  };
  block.split = in_use(block.prev) || in_use(block.next);
  if (block.split) gauges_.split_in(block.bytes);
  index_of(block).insert(blocks_, index);
}

void Heap::remove_free(BlockIndex index) noexcept {
  const Block& block = blocks_[index];
  if (block.split) gauges_.split_out(block.bytes);
  index_of(block).remove(blocks_, index);
}

BlockIndex Heap::split(BlockIndex index, std::size_t bytes) noexcept {
  Block& block = blocks_[index];
  CISTERN_ASSERT(bytes != 0 && bytes < block.bytes);
  Block rest = block;
  rest.address = block.address + bytes;
  rest.bytes = block.bytes - bytes;
  rest.prev = index;
  const BlockIndex created = blocks_.create(rest);  // never moves blocks: has_room() was required
  if (rest.next != kNoBlock) blocks_[rest.next].prev = created;
  block.next = created;
  block.bytes = bytes;
  return created;
}

void Heap::merge_next(BlockIndex index) noexcept {
  Block& block = blocks_[index];
  const BlockIndex gone = block.next;
  const Block& next = blocks_[gone];
  block.bytes += next.bytes;
  if (next.last_free > block.last_free) block.last_free = next.last_free;
  block.next = next.next;
  if (next.next != kNoBlock) blocks_[next.next].prev = index;
  blocks_.destroy(gone);
}

void Heap::coalesce_and_insert(BlockIndex index) noexcept {
  if (const BlockIndex next = blocks_[index].next; next != kNoBlock && blocks_[next].state == BlockState::kFree) {
    remove_free(next);
    merge_next(index);
  }
  if (const BlockIndex prev = blocks_[index].prev; prev != kNoBlock && blocks_[prev].state == BlockState::kFree) {
    remove_free(prev);
    merge_next(prev);
    index = prev;
  }
  insert_free(index);
}

std::size_t Heap::committed_bytes(bool small) const noexcept {
  std::size_t bytes = 0;
  for (const Range& range : ranges_) {
    if (range.first != kNoBlock && range.small == small) bytes += range.committed_bytes;
  }
  return bytes;
}

std::size_t Heap::largest_free_bytes() const noexcept {
  return std::max(index_[0].largest_bytes(blocks_), index_[1].largest_bytes(blocks_));
}

void Heap::log(EventKind kind, Address address, std::size_t bytes, std::size_t granted, StreamId of,
               FenceId fence) noexcept {
  if (!events_.recording()) [[likely]] return;
  Event event;
  event.kind = kind;
  event.address = address;
  event.bytes = bytes;
  event.granted_bytes = granted;
  event.stream = of.value;
  event.fence = fence.value;
  event.heap = number;
  event.device = rules_.device.value;
  event.pool = static_cast<std::uint8_t>(pool.value);
  events_.add(event);
}

}  // namespace cistern
