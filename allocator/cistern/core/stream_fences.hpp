// The seam to stream time. A fence is a point in a stream's work: done once all work queued before it is done.
#pragma once

#include "cistern/base/ids.hpp"

namespace cistern {

enum class FenceState {
  kDone,
  kNotYet,
  kCannotAskNow,  ///< While a stream captures, say: counts as not yet, and must not be waited for.
};

inline constexpr FenceId kNoFence{0};

/// Threads: all members may be called from any thread at once; none is called under a heap lock, since a driver may
/// block in record when its launch queue is full.
class StreamFences {
 public:
  StreamFences() = default;
  StreamFences(const StreamFences&) = delete;
  StreamFences& operator=(const StreamFences&) = delete;
  virtual ~StreamFences() = default;

  /// A fence behind all work queued on the stream so far; kNoFence when none can be recorded now (the stream captures),
  /// so that the caller asks again later.
  virtual FenceId record(StreamId stream) = 0;
  virtual FenceState query(FenceId fence) = 0;
  /// Blocks the calling thread until the fence is done.
  virtual void wait(FenceId fence) = 0;
  /// Makes later work of the stream start after the fence, without blocking the caller. False: cannot now.
  virtual bool order_after(StreamId stream, FenceId fence) = 0;
  /// The caller will not name this fence again.
  virtual void release(FenceId fence) = 0;
};

}  // namespace cistern
