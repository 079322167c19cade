#include "cistern/adapters/watched_source.hpp"

#include <new>
#include <utility>

namespace cistern {

std::optional<SourceRange> WatchedSource::reserve(std::size_t bytes) {
  const auto range = source_->reserve(bytes);
  if (range) addresses_.emplace(range->id, range->address);
  return range;
}

std::size_t WatchedSource::commit(RangeId range, std::size_t offset, std::size_t bytes) {
  const std::size_t committed = source_->commit(range, offset, bytes);
  if (committed != 0) tell(range, offset, committed, true);
  return committed;
}

void WatchedSource::decommit(RangeId range, std::size_t offset, std::size_t bytes) {
  source_->decommit(range, offset, bytes);
  tell(range, offset, bytes, false);
}

void WatchedSource::unreserve(RangeId range) {
  addresses_.erase(range);
  source_->unreserve(range);
}

std::vector<SegmentEvent> WatchedSource::take() {
  const std::scoped_lock lock(mutex_);
  any_.store(false, std::memory_order_relaxed);
  return std::exchange(events_, {});
}

void WatchedSource::tell(RangeId range, std::size_t offset, std::size_t bytes, bool came) {
  if (!listening_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  try {
    events_.push_back({addresses_.at(range) + offset, bytes, came});
  } catch (const std::bad_alloc&) {  // memory came or went already: a listener that misses it is the lesser evil
    return;
  }
  any_.store(true, std::memory_order_release);
}

}  // namespace cistern
