#include "support/hand_fences.hpp"

#include <algorithm>

#include "cistern/base/check.hpp"

namespace cistern::support {

FenceId HandFences::record(StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (!recordable_) return kNoFence;
  fences_.push_back({stream, streams_[stream].queued});
  held_.push_back(true);
  ++held_count_;
  return FenceId{fences_.size()};
}

FenceState HandFences::query(FenceId fence) {
  const std::lock_guard lock(mutex_);
  const StreamPoint point = held_point(fence);
  if (capturing_) return FenceState::kCannotAskNow;
  return streams_[point.stream].completed >= point.position ? FenceState::kDone : FenceState::kNotYet;
}

void HandFences::wait(FenceId fence) {
  const std::lock_guard lock(mutex_);
  CISTERN_CHECK_EQ(capturing_, false);
  ++wait_count_;
  complete_to(held_point(fence), true);
}

bool HandFences::order_after(StreamId stream, FenceId fence) {
  const std::lock_guard lock(mutex_);
  const StreamPoint point = held_point(fence);
  if (capturing_) return false;
  ++order_count_;
  Stream& later = streams_[stream];
  ++later.queued;
  if (point.stream != stream) later.waits[later.queued].push_back(point);
  log_.push_back({StreamMoment::Kind::kQueued, true, {stream, later.queued}});
  return true;
}

void HandFences::release(FenceId fence) {
  const std::lock_guard lock(mutex_);
  held_point(fence);
  held_[fence.value - 1] = false;
  --held_count_;
}

void HandFences::queue(StreamId stream) {
  const std::lock_guard lock(mutex_);
  log_.push_back({StreamMoment::Kind::kQueued, false, {stream, ++streams_[stream].queued}});
}

void HandFences::complete(StreamId stream, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  const Stream& state = streams_[stream];
  complete_to({stream, std::min(state.queued, state.completed + count)}, false);
}

void HandFences::complete_everything() {
  const std::lock_guard lock(mutex_);
  for (const auto& [stream, state] : streams_) complete_to({stream, state.queued}, false);
}

void HandFences::set_capturing(bool capturing) {
  const std::lock_guard lock(mutex_);
  capturing_ = capturing;
}

void HandFences::set_recordable(bool recordable) {
  const std::lock_guard lock(mutex_);
  recordable_ = recordable;
}

// Fences lie in the past of whatever is ordered after them, so the recursion ends.
void HandFences::complete_to(StreamPoint point, bool by_allocator) {
  Stream& stream = streams_[point.stream];
  while (stream.completed < point.position) {
    const std::uint64_t next = stream.completed + 1;
    if (const auto waits = stream.waits.find(next); waits != stream.waits.end()) {
      for (const StreamPoint& earlier : waits->second) complete_to(earlier, by_allocator);
      stream.waits.erase(next);
    }
    stream.completed = next;
    log_.push_back({StreamMoment::Kind::kCompleted, by_allocator, {point.stream, next}});
  }
}

StreamPoint HandFences::held_point(FenceId fence) const {
  CISTERN_CHECK_NE(fence.value, 0u);
  CISTERN_CHECK_LE(fence.value, fences_.size());
  CISTERN_CHECK_EQ(held_[fence.value - 1], true);
  return fences_[fence.value - 1];
}

std::uint64_t HandFences::queued(StreamId stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.queued;
}

std::uint64_t HandFences::completed(StreamId stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.completed;
}

bool HandFences::capturing() const {
  const std::lock_guard lock(mutex_);
  return capturing_;
}

bool HandFences::done(FenceId fence) const {
  const StreamPoint point = point_of(fence);
  return completed(point.stream) >= point.position;
}

StreamPoint HandFences::point_of(FenceId fence) const {
  const std::lock_guard lock(mutex_);
  CISTERN_CHECK_NE(fence.value, 0u);
  CISTERN_CHECK_LE(fence.value, fences_.size());
  return fences_[fence.value - 1];
}

std::size_t HandFences::record_count() const {
  const std::lock_guard lock(mutex_);
  return fences_.size();
}

std::size_t HandFences::wait_count() const {
  const std::lock_guard lock(mutex_);
  return wait_count_;
}

std::size_t HandFences::order_count() const {
  const std::lock_guard lock(mutex_);
  return order_count_;
}

std::size_t HandFences::held_count() const {
  const std::lock_guard lock(mutex_);
  return held_count_;
}

std::size_t HandFences::log_size() const {
  const std::lock_guard lock(mutex_);
  return log_.size();
}

StreamMoment HandFences::log_entry(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  CISTERN_CHECK_LT(index, log_.size());
  return log_[index];
}

}  // namespace cistern::support
