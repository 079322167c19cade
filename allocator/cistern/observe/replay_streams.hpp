// Stream time for replays: a device that is behind the host by a number of operations, and catches up when it is
// waited for.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "cistern/core/stream_fences.hpp"

namespace cistern {

/// The host's time is the number of operations replayed. What a stream was given at time t is done once the host waited
/// for it, or at t + lag. Threads: one.
class ReplayStreams final : public StreamFences {
 public:
  /// A device that does nothing until it is waited for.
  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

  explicit ReplayStreams(std::uint64_t lag) noexcept : lag_(lag) {}

  FenceId record(StreamId stream) override;
  FenceState query(FenceId fence) override;
  /// Counted, if the device was behind.
  void wait(FenceId fence) override;
  bool order_after(StreamId stream, FenceId fence) override;
  void release(FenceId) override {}

  /// The stream is given work.
  void work(StreamId stream) { streams_[stream].given = now_; }
  /// One operation later.
  void advance() noexcept { ++now_; }
  /// The program itself waits for a stream. Not counted.
  void sync(StreamId stream);
  /// Waits of the allocator for a device that was behind.
  std::uint64_t wait_count() const noexcept { return wait_count_; }

 private:
  struct Point {
    StreamId stream;
    std::uint64_t time = 0;
  };
  struct Stream {
    std::uint64_t given = 0;   ///< When it got its latest work.
    std::uint64_t done = 0;    ///< What was given until then is done: it was waited for.
    std::vector<Point> after;  ///< Its work starts after these.
  };
  bool done(const Point& point) const;
  void finish(const Point& point);

  const std::uint64_t lag_;
  std::uint64_t now_ = 1;
  std::uint64_t wait_count_ = 0;
  std::map<StreamId, Stream> streams_;
  std::vector<Point> fences_;
};

}  // namespace cistern
