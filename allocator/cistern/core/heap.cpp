#include "cistern/core/heap.hpp"

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {

Heap::Heap(std::uint32_t number_, StreamId stream_, PoolId pool_, Budget& budget_, const HeapRules& rules)
    : number(number_), stream(stream_), pool(pool_), budget(budget_), rules_(rules) {
  blocks_.prepare(kRoom);
}

BlockIndex Heap::find_exactly(const Need& need) noexcept {
  end_rest();
  const std::size_t bytes = need.span_bytes(rules_.least_block_bytes);
  return index_[class_of(need)].fit_exactly(blocks_, bytes);
}

void Heap::release_resting() noexcept {
  release(latest_.live);
  latest_.resting = false;
}

void Heap::record_use(BlockIndex index, StreamId user) {
  streams_.record_use(index, user);
  blocks_[index].streams = !CISTERN_MUTANT(I8_use_forgotten);
  log(EventKind::kRecordStream, blocks_[index].address, 0, 0, user);
}

std::vector<StreamLedger::OpenFence> Heap::give_pending(BlockIndex index) {
  end_rest();
  Block& block = blocks_[index];
  CISTERN_ASSERT(block.state == BlockState::kActive);
  std::vector<StreamLedger::OpenFence> users = streams_.begin_pending(index);
  if (!CISTERN_MUTANT(I9_pending_address_stays_live)) blocks_.erase(index);
  gauges_.gave_pending(block.block_class, block.requested_bytes, block.bytes);
  log(EventKind::kFree, block.address, block.requested_bytes, block.bytes, stream);
  block.state = BlockState::kPending;
  return users;
}

void Heap::settle(BlockIndex index) noexcept {
  end_rest();
  const Block& block = blocks_[index];
  CISTERN_ASSERT(block.state == BlockState::kPending);
  gauges_.settled(block.block_class, block.bytes);
  log(EventKind::kBlockReady, block.address, block.bytes, block.bytes, stream);
  const std::size_t block_class = block.block_class;
  const std::size_t bytes = block.bytes;
  become_free(index, ++free_count_);
  gauges_.free_in(block_class, bytes);
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

void Heap::write_event(EventKind kind, Address address, std::size_t bytes, std::size_t granted, StreamId of,
                       FenceId fence) noexcept {
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
