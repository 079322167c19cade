#include "cistern/observe/replay_streams.hpp"

#include <utility>

#include "cistern/base/check.hpp"

namespace cistern {

FenceId ReplayStreams::record(StreamId stream) {
  fences_.push_back({stream, streams_[stream].given});
  return FenceId{fences_.size()};
}

bool ReplayStreams::done(const Point& point) const {
  if (lag_ != kForever && now_ >= point.time + lag_) return true;
  const auto found = streams_.find(point.stream);
  return found != streams_.end() && found->second.done >= point.time;
}

// Whatever a stream was made to start after lies in the past, so the recursion ends.
void ReplayStreams::finish(const Point& point) {
  Stream& stream = streams_[point.stream];
  if (stream.done >= point.time) return;
  stream.done = point.time;
  for (const Point& earlier : std::exchange(stream.after, {})) finish(earlier);
}

FenceState ReplayStreams::query(FenceId fence) {
  CISTERN_CHECK_LE(fence.value, fences_.size());
  return done(fences_[fence.value - 1]) ? FenceState::kDone : FenceState::kNotYet;
}

void ReplayStreams::wait(FenceId fence) {
  CISTERN_CHECK_LE(fence.value, fences_.size());
  const Point point = fences_[fence.value - 1];
  if (done(point)) return;
  ++wait_count_;
  finish(point);
}

bool ReplayStreams::order_after(StreamId stream, FenceId fence) {
  CISTERN_CHECK_LE(fence.value, fences_.size());
  streams_[stream].after.push_back(fences_[fence.value - 1]);
  work(stream);
  return true;
}

void ReplayStreams::sync(StreamId stream) { finish({stream, now_}); }

}  // namespace cistern
