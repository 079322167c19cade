#include "cistern/core/stream_ledger.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"

namespace cistern {

void StreamLedger::record_use(BlockIndex block, StreamId stream) {
  std::vector<StreamId>& streams = uses_[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

std::vector<StreamLedger::OpenFence> StreamLedger::begin_pending(BlockIndex block) {
  const auto use = uses_.find(block);
  CISTERN_ASSERT(use != uses_.end());
  std::vector<OpenFence> fences;
  fences.reserve(use->second.size());
  try {
    for (const StreamId stream : use->second) {
      queues_[stream].push_back({{stream, kNoFence, block}, Recorded::kNow});
      fences.push_back(queues_[stream].back().open);
    }
    open_counts_.emplace(block, fences.size());
  } catch (const std::bad_alloc&) {
    for (const OpenFence& fence : fences) queues_[fence.stream].pop_back();
    std::erase_if(queues_, [](const auto& queue) { return queue.second.empty(); });
    throw;
  }
  uses_.erase(use);
  return fences;
}

void StreamLedger::attach(const std::vector<OpenFence>& fences) noexcept {
  for (const OpenFence& fence : fences) {
    std::deque<Entry>& queue = queues_.find(fence.stream)->second;
    const auto place = std::find_if(queue.begin(), queue.end(), [&](const Entry& entry) {
      return entry.recorded == Recorded::kNow && entry.open.block == fence.block;
    });
    CISTERN_ASSERT(place != queue.end());
    *place = {fence, fence.fence == kNoFence ? Recorded::kRefused : Recorded::kYes};
    if (fence.fence == kNoFence) ++unfenced_count_;
  }
}

std::vector<StreamLedger::OpenFence> StreamLedger::unfenced() {
  std::vector<OpenFence> uses;
  uses.reserve(unfenced_count_);
  for (auto& [stream, queue] : queues_) {
    for (Entry& entry : queue) {
      if (entry.recorded != Recorded::kRefused) continue;
      entry.recorded = Recorded::kNow;
      uses.push_back(entry.open);
    }
  }
  unfenced_count_ = 0;
  return uses;
}

std::vector<StreamLedger::OpenFence> StreamLedger::oldest() const {
  std::vector<OpenFence> fences;
  for (const auto& [stream, queue] : queues_) {
    if (queue.front().recorded == Recorded::kYes) fences.push_back(queue.front().open);
  }
  return fences;
}

std::vector<StreamLedger::OpenFence> StreamLedger::all() const {
  std::vector<OpenFence> fences;
  for (const auto& [stream, queue] : queues_) {
    for (const Entry& entry : queue) {
      if (entry.recorded == Recorded::kYes) fences.push_back(entry.open);
    }
  }
  return fences;
}

std::optional<BlockIndex> StreamLedger::close(const OpenFence& fence) {
  const auto queue = queues_.find(fence.stream);
  if (queue == queues_.end()) return std::nullopt;
  const auto entry = std::find_if(queue->second.begin(), queue->second.end(),
                                  [&](const Entry& e) { return e.recorded == Recorded::kYes && e.open.fence == fence.fence; });
  if (entry == queue->second.end()) return std::nullopt;
  queue->second.erase(entry);
  if (queue->second.empty()) queues_.erase(queue);
  const auto count = open_counts_.find(fence.block);
  CISTERN_ASSERT(count != open_counts_.end());
  if (--count->second != 0 && !CISTERN_MUTANT(I8_first_fence_settles)) return std::nullopt;
  open_counts_.erase(count);
  return fence.block;
}

}  // namespace cistern
