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
  return index_[need.block_class].fit_exactly(blocks_, bytes);
}

void Heap::release_resting() noexcept {
  release(latest_.live, latest_.address);
  latest_.resting = false;
}

void Heap::record_use(BlockIndex index, StreamId user) {
  streams_.record_use(index, user);
  if (!CISTERN_MUTANT(I8_use_forgotten)) blocks_[index].set_streams();
  log(EventKind::kRecordStream, blocks_[index].address(), 0, 0, user);
}

std::vector<StreamLedger::OpenFence> Heap::give_pending(BlockIndex index) {
  end_rest();
  Block& block = blocks_[index];
  CISTERN_ASSERT(block.state() == BlockState::kActive);
  std::vector<StreamLedger::OpenFence> users = streams_.begin_pending(index);
  if (!CISTERN_MUTANT(I9_pending_address_stays_live)) blocks_.erase(blocks_.find(block.address()), block.address());
  gauges_.gave_pending(block.block_class(), block.requested_bytes(), block.bytes());
  log(EventKind::kFree, block.address(), block.requested_bytes(), block.bytes(), stream);
  block.set_state(BlockState::kPending);
  return users;
}

void Heap::settle(BlockIndex index) noexcept {
  end_rest();
  const Block& block = blocks_[index];
  CISTERN_ASSERT(block.state() == BlockState::kPending);
  const std::size_t block_class = block.block_class();
  const std::size_t bytes = block.bytes();
  gauges_.settled(block_class, bytes);
  log(EventKind::kBlockReady, block.address(), bytes, bytes, stream);
  epochs_.count_free();
  become_free(index, block_class, epochs_.stamp());
  gauges_.free_in(block_class, bytes);
}

std::uint64_t Heap::end_epoch() noexcept {
  end_rest();  // what rests was freed before
  const std::uint64_t ended = epochs_.end();
  if (epochs_.full()) {
    for (std::uint32_t slot = 0; slot < ranges_.size(); ++slot) {
      for (BlockIndex i = first_block(slot); i != kNoBlock; i = blocks_[i].next) {
        blocks_[i].set_last_free(FreeEpochs::later(blocks_[i].last_free()));
      }
    }
    epochs_.first_epochs_forgotten();
  }
  return ended;
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
