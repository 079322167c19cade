// Stream time as CUDA events tell it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cistern/base/spin_lock.hpp"
#include "cistern/core/stream_fences.hpp"
#include "cistern/sources/cuda/driver_api.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {

/// A stream's handle is no identity, as the driver gives it to another stream later: a StreamId is what cudaStreamGetId
/// says, and before each use the driver is asked whether the handle still means that stream. A stream that is gone has
/// fences all the same: the device is waited for, and the fence is done.
///
/// Captures: every call is made in relaxed mode, which cannot spoil a capture. Nothing is recorded into a stream that
/// captures (record gives kNoFence, order_after says no), so no event here ever belongs to a graph, and events of
/// before may be queried meanwhile. kCannotAskNow: the driver declined to answer.
///
/// Errors: identify and wait throw DriverError. The others belong to the path of a free and never throw: the answer is
/// then "not now", and the error waits in faults(). A driver that is unloading has done everything.
class EventFences final : public StreamFences {
 public:
  /// Fails with DriverError.
  EventFences(const DriverApi& api, int device);

  /// The identity of a cudaStream_t of our device, which record() will know again. The default stream's handles are
  /// one stream; the per-thread default stream is another in each thread.
  /// Cost: no driver call for the default stream, one for any other.
  StreamId identify(void* stream) { return identify(stream, device_); }
  /// The same for a stream of any device: a peer may use our memory.
  StreamId identify(void* stream, int device);

  FenceId record(StreamId stream) override;
  FenceState query(FenceId fence) override;
  void wait(FenceId fence) override;
  bool order_after(StreamId stream, FenceId fence) override;
  void release(FenceId fence) override;

  /// Whether a stream that was ever identified captures now. Cost: two driver calls a stream. Fails with DriverError.
  bool capturing();

  /// The handle under which the stream was first met; it may mean another stream by now.
  /// Requires an identity that identify gave.
  void* handle_of(StreamId stream) const { return stream_of(stream).handle; }

  KeptFaults& faults() noexcept { return faults_; }
  std::size_t event_count() const;  ///< Events that exist, in use or waiting for reuse.

 private:
  struct Stream {
    void* handle = nullptr;
    int device = 0;
  };
  /// A place for one fence at a time; its event is made once and reused.
  struct Slot {
    DeviceEvent event;
    int device = 0;
    bool recorded = false;  ///< Else the fence is done: nothing to ask.
    std::uint32_t generation = 0;
  };
  enum class Life : std::uint8_t { kAlive, kGone };

  StreamId ask_for_id(const Stream& stream) const;
  Stream stream_of(StreamId id) const;
  Life life_of(StreamId id, const Stream& stream) const;
  bool captures(const Stream& stream) const;
  FenceId try_record(StreamId id);
  FenceId fence_of_gone_stream(const Stream& stream);
  std::uint32_t take_slot(int device);
  void give_slot(std::uint32_t index);
  void* event_in(std::uint32_t index);  ///< Of a slot that is taken; made if there is none yet.
  FenceId name(std::uint32_t index, bool recorded);
  std::optional<void*> event_of(FenceId fence) const;

  DriverApi api_;
  const DriverFunctions& functions_;
  const int device_;
  StreamId default_stream_;

  mutable SpinLock streams_lock_;
  std::unordered_map<std::uint64_t, Stream> streams_;  ///< By identity; a few words for each stream there ever was.

  mutable std::mutex slots_mutex_;
  std::deque<Slot> slots_;
  std::unordered_map<int, std::vector<std::uint32_t>> idle_slots_;  ///< By device of the event.
  KeptFaults faults_;
};

}  // namespace cistern
