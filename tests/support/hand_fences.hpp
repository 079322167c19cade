// StreamFences operated by hand: each stream is a counter of queued work and a counter of completed work, and
// a test says when work completes. Because nothing happens by itself, the truth of every fence is known at
// every moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "cistern/core/stream_fences.hpp"

namespace cistern::support {

/// A point in a stream's work: everything queued up to `position`.
struct StreamPoint {
  StreamId stream;
  std::uint64_t position = 0;
};

/// One thing that happened to a stream, in order; the log of them is the truth that a validator replays.
struct StreamMoment {
  enum class Kind : std::uint8_t { kQueued, kCompleted };
  Kind kind = Kind::kQueued;
  bool by_allocator = false;  ///< Made by order_after or wait, in the middle of an allocator's call.
  StreamPoint point;          ///< Queued or completed up to here.
};

/// Threads: all members may be called at once.
class HandFences final : public StreamFences {
 public:
  FenceId record(StreamId stream) override;
  FenceState query(FenceId fence) override;
  /// The device catches up at once: completes the fence's stream, and whatever that waits for, up to the
  /// fence.
  void wait(FenceId fence) override;
  bool order_after(StreamId stream, FenceId fence) override;
  void release(FenceId fence) override;

  /// Queues one piece of work.
  void queue(StreamId stream);
  /// Completes up to `count` pieces of queued work, and whatever they wait for on other streams.
  void complete(StreamId stream, std::uint64_t count = 1);
  void complete_everything();
  /// From now on fences cannot be asked, waited for or ordered after, as while a stream captures.
  void set_capturing(bool capturing);
  /// From now on no fence can be recorded, as on a stream that captures.
  void set_recordable(bool recordable);

  std::uint64_t queued(StreamId stream) const;
  std::uint64_t completed(StreamId stream) const;
  bool capturing() const;
  bool done(FenceId fence) const;
  /// Of any fence ever recorded.
  StreamPoint point_of(FenceId fence) const;

  std::size_t record_count() const;
  std::size_t wait_count() const;
  std::size_t order_count() const;
  /// Recorded and not yet released.
  std::size_t held_count() const;

  std::size_t log_size() const;
  StreamMoment log_entry(std::size_t index) const;

 private:
  struct Stream {
    std::uint64_t queued = 0;
    std::uint64_t completed = 0;
    std::map<std::uint64_t, std::vector<StreamPoint>> waits;  ///< By the position that waits.
  };

  void complete_to(StreamPoint point, bool by_allocator);
  StreamPoint held_point(FenceId fence) const;

  mutable std::mutex mutex_;
  std::map<StreamId, Stream> streams_;
  std::vector<StreamPoint> fences_;  ///< By FenceId, from 1.
  std::vector<bool> held_;
  std::vector<StreamMoment> log_;
  std::size_t wait_count_ = 0;
  std::size_t order_count_ = 0;
  std::size_t held_count_ = 0;
  bool capturing_ = false;
  bool recordable_ = true;
};

}  // namespace cistern::support
