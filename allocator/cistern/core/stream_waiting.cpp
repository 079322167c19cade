// Rungs 3 and 6: pending blocks become free when their fences are done, or when their owner stream runs behind them.
#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {

bool CachingAllocator::is_pending(Address address) const {
  Heap* heap = addresses_.find(address);
  if (heap == nullptr) return false;
  const std::scoped_lock lock(heap->lock());
  return heap->streams().any_block([&](BlockIndex block) { return heap->block(block).address() == address; });
}

void CachingAllocator::attach_fences(Heap& heap, std::vector<StreamLedger::OpenFence>& users) {
  // Recorded with no lock held: a driver may block here when its launch queue is full.
  for (StreamLedger::OpenFence& user : users) user.fence = fences_->record(user.stream);
  const std::scoped_lock lock(heap.lock());
  heap.streams().attach(users);
  for (const auto& user : users) {
    if (user.fence == kNoFence) continue;
    heap.log(EventKind::kFenceRecorded, heap.block(user.block).address(), 0, 0, user.stream, user.fence);
  }
}

void CachingAllocator::fence_pending(Heap& heap, std::vector<StreamLedger::OpenFence>& users) {
  attach_fences(heap, users);
  bool events_due = false;
  {
    const std::scoped_lock lock(heap.lock());
    events_due = heap.events().due();
  }
  after_operation(heap, events_due);
}

void CachingAllocator::fence_again(Heap& heap) {
  std::vector<StreamLedger::OpenFence> users;
  {
    const std::scoped_lock lock(heap.lock());
    if (!heap.streams().has_unfenced()) return;
    users = heap.streams().unfenced();
  }
  attach_fences(heap, users);
}

void CachingAllocator::close_fence(Heap& heap, const StreamLedger::OpenFence& fence, EventKind why) {
  {
    const std::scoped_lock lock(heap.lock());
    heap.log(why, 0, 0, 0, why == EventKind::kFenceOrdered ? heap.stream : fence.stream, fence.fence);
    if (const auto block = heap.streams().close(fence)) heap.settle(*block);
  }
  fences_->release(fence.fence);
}

void CachingAllocator::reap_heap(Heap& heap) {
  if (fences_ == nullptr) return;
  const std::scoped_lock reaping(reap_mutex_);
  fence_again(heap);
  for (bool closed = true; closed;) {
    closed = false;
    std::vector<StreamLedger::OpenFence> oldest;
    {
      const std::scoped_lock lock(heap.lock());
      if (heap.streams().empty()) return;
      oldest = heap.streams().oldest();
    }
    for (const auto& fence : oldest) {
      if (fences_->query(fence.fence) != FenceState::kDone && !CISTERN_MUTANT(I8_fence_not_asked)) continue;
      close_fence(heap, fence, EventKind::kFenceDone);
      closed = true;
    }
  }
}

bool CachingAllocator::order_owner_behind_fences(Heap& heap) {
  const std::scoped_lock reaping(reap_mutex_);
  fence_again(heap);
  std::vector<StreamLedger::OpenFence> open;
  {
    const std::scoped_lock lock(heap.lock());
    open = heap.streams().all();
  }
  bool closed = false;
  for (const auto& fence : open) {
    if (!CISTERN_MUTANT(I8_owner_not_ordered) && !fences_->order_after(heap.stream, fence.fence)) continue;
    close_fence(heap, fence, EventKind::kFenceOrdered);
    closed = true;
  }
  return closed;
}

bool CachingAllocator::wait_for_one_fence() {
  const std::scoped_lock reaping(reap_mutex_);
  for (const auto& heap : heaps_) {
    fence_again(*heap);
    std::vector<StreamLedger::OpenFence> oldest;
    {
      const std::scoped_lock lock(heap->lock());
      oldest = heap->streams().oldest();
    }
    for (const auto& fence : oldest) {
      const FenceState state = fences_->query(fence.fence);
      if (state == FenceState::kCannotAskNow) continue;
      if (state == FenceState::kNotYet) fences_->wait(fence.fence);
      close_fence(*heap, fence, EventKind::kFenceDone);
      return true;
    }
  }
  return false;
}

void CachingAllocator::wait_for_all_fences() {
  if (fences_ == nullptr) return;
  while (wait_for_one_fence()) {
  }
}

}  // namespace cistern
