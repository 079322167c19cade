#include "cistern/core/stream_ledger.hpp"

#include <algorithm>
#include <utility>

#include "cistern/base/check.hpp"

namespace cistern {

void StreamLedger::record_use(BlockIndex block, StreamId stream) {
  std::vector<StreamId>& streams = uses_[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

std::vector<StreamId> StreamLedger::begin_pending(BlockIndex block) {
  const auto found = uses_.find(block);
  CISTERN_ASSERT(found != uses_.end());
  open_counts_.emplace(block, found->second.size());
  std::vector<StreamId> streams = std::move(found->second);
  uses_.erase(found);
  return streams;
}

void StreamLedger::attach(BlockIndex block, const std::vector<StreamId>& streams, const std::vector<FenceId>& fences) {
  CISTERN_ASSERT(streams.size() == fences.size());
  for (std::size_t i = 0; i < streams.size(); ++i) queues_[streams[i]].push_back({streams[i], fences[i], block});
}

std::vector<StreamLedger::OpenFence> StreamLedger::oldest() const {
  std::vector<OpenFence> fences;
  for (const auto& [stream, queue] : queues_) fences.push_back(queue.front());
  return fences;
}

std::vector<StreamLedger::OpenFence> StreamLedger::all() const {
  std::vector<OpenFence> fences;
  for (const auto& [stream, queue] : queues_) fences.insert(fences.end(), queue.begin(), queue.end());
  return fences;
}

std::optional<BlockIndex> StreamLedger::close(const OpenFence& fence) {
  const auto queue = queues_.find(fence.stream);
  if (queue == queues_.end()) return std::nullopt;
  const auto entry = std::find_if(queue->second.begin(), queue->second.end(),
                                  [&](const OpenFence& open) { return open.fence == fence.fence; });
  if (entry == queue->second.end()) return std::nullopt;
  queue->second.erase(entry);
  if (queue->second.empty()) queues_.erase(queue);
  const auto count = open_counts_.find(fence.block);
  CISTERN_ASSERT(count != open_counts_.end());
  if (--count->second != 0) return std::nullopt;
  open_counts_.erase(count);
  return fence.block;
}

}  // namespace cistern
