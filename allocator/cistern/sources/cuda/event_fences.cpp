#include "cistern/sources/cuda/event_fences.hpp"

#include <new>
#include <utility>

#include "cistern/base/check.hpp"
#include "cistern/sources/cuda/driver_functions.hpp"

namespace cistern {
namespace {

bool is_default_stream(void* stream) noexcept { return stream == nullptr || stream == cudaStreamLegacy; }

cudaStream_t stream_handle(void* handle) noexcept { return static_cast<cudaStream_t>(handle); }

std::uint32_t slot_index(FenceId fence) noexcept { return static_cast<std::uint32_t>(fence.value) - 1; }

}  // namespace

EventFences::EventFences(const DriverApi& api, int device)
    : api_(api), functions_(api_.functions()), device_(device) {
  const Stream stream{nullptr, device};
  default_stream_ = ask_for_id(stream);
  streams_.emplace(default_stream_.value, stream);
}

StreamId EventFences::identify(void* handle, int device) {
  if (is_default_stream(handle)) {
    if (device == device_) return default_stream_;
    handle = nullptr;
  }
  const Stream stream{handle, device};
  const StreamId id = ask_for_id(stream);
  const std::scoped_lock lock(streams_lock_);
  streams_.try_emplace(id.value, stream);
  return id;
}

StreamId EventFences::ask_for_id(const Stream& stream) const {
  // Only the default streams depend on what is current.
  std::optional<DeviceGuard> guard;
  if (stream.handle == nullptr || stream.handle == cudaStreamPerThread) guard.emplace(functions_, stream.device);
  unsigned long long id = 0;
  functions_.check("cudaStreamGetId", functions_.cudaStreamGetId(stream_handle(stream.handle), &id));
  return StreamId{id};
}

EventFences::Stream EventFences::stream_of(StreamId id) const {
  const std::scoped_lock lock(streams_lock_);
  const auto found = streams_.find(id.value);
  const bool stream_was_identified = found != streams_.end();
  CISTERN_CHECK_EQ(stream_was_identified, true);
  return found->second;
}

// A per-thread default stream looks gone to any other thread: waiting for the device is then more than enough.
EventFences::Life EventFences::life_of(StreamId id, const Stream& stream) const {
  try {
    return ask_for_id(stream) == id ? Life::kAlive : Life::kGone;
  } catch (const DriverError& error) {
    const bool gone = error.code() == cudaErrorInvalidResourceHandle || error.code() == cudaErrorContextIsDestroyed;
    if (!gone) throw;
    return Life::kGone;
  }
}

bool EventFences::captures(const Stream& stream) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = functions_.cudaStreamIsCapturing(stream_handle(stream.handle), &status);
  if (code == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  // Asked of the default stream, which another stream's capture makes unusable: the capture goes on unharmed.
  const DriverError error = functions_.error("cudaStreamIsCapturing", code);
  if (!means_capturing(code)) throw error;
  return true;
}

bool EventFences::capturing() {
  std::unordered_map<std::uint64_t, Stream> streams;
  {
    const std::scoped_lock lock(streams_lock_);
    streams = streams_;
  }
  for (const auto& [id, stream] : streams) {
    const DeviceGuard guard(functions_, stream.device);
    if (life_of(StreamId{id}, stream) == Life::kAlive && captures(stream)) return true;
  }
  return false;
}

FenceId EventFences::record(StreamId id) {
  try {
    try {
      return try_record(id);
    } catch (const DriverError& error) {
      if (means_unloading(error.code())) return name(take_slot(device_), false);
      faults_.keep(error);
    }
  } catch (const std::bad_alloc&) {
  }
  return kNoFence;
}

FenceId EventFences::try_record(StreamId id) {
  const Stream stream = stream_of(id);
  const RelaxedCapture relaxed(functions_);
  const DeviceGuard guard(functions_, stream.device);
  if (life_of(id, stream) == Life::kGone) return fence_of_gone_stream(stream);
  if (captures(stream)) return kNoFence;
  const std::uint32_t index = take_slot(stream.device);
  try {
    auto* const event = static_cast<cudaEvent_t>(event_in(index));
    functions_.check("cudaEventRecord", functions_.cudaEventRecord(event, stream_handle(stream.handle)));
  } catch (...) {
    give_slot(index);
    throw;
  }
  return name(index, true);
}

FenceId EventFences::fence_of_gone_stream(const Stream& stream) {
  // Its work may still run. Waiting for a device spoils any capture there, in relaxed mode too.
  if (capturing()) return kNoFence;
  functions_.check("cudaDeviceSynchronize", functions_.cudaDeviceSynchronize());
  return name(take_slot(stream.device), false);
}

FenceState EventFences::query(FenceId fence) {
  const auto event = event_of(fence);
  if (!event) return FenceState::kDone;
  const RelaxedCapture relaxed(functions_);
  const cudaError_t code = functions_.cudaEventQuery(static_cast<cudaEvent_t>(*event));
  if (code == cudaSuccess) return FenceState::kDone;
  if (code == cudaErrorNotReady) {
    functions_.cudaGetLastError();
    return FenceState::kNotYet;
  }
  const DriverError error = functions_.error("cudaEventQuery", code);
  if (means_unloading(code)) return FenceState::kDone;
  if (!means_capturing(code)) faults_.keep(error);
  return FenceState::kCannotAskNow;
}

void EventFences::wait(FenceId fence) {
  const auto event = event_of(fence);
  if (!event) return;
  const RelaxedCapture relaxed(functions_);
  functions_.settle("cudaEventSynchronize", functions_.cudaEventSynchronize(static_cast<cudaEvent_t>(*event)));
}

bool EventFences::order_after(StreamId id, FenceId fence) {
  const auto event = event_of(fence);
  if (!event) return true;
  try {
    const Stream stream = stream_of(id);
    const RelaxedCapture relaxed(functions_);
    const DeviceGuard guard(functions_, stream.device);
    if (life_of(id, stream) == Life::kGone || captures(stream)) return false;
    functions_.check("cudaStreamWaitEvent", functions_.cudaStreamWaitEvent(stream_handle(stream.handle),
                                                                           static_cast<cudaEvent_t>(*event), 0));
    return true;
  } catch (const DriverError& error) {
    if (means_unloading(error.code())) return true;
    faults_.keep(error);
    return false;
  }
}

void EventFences::release(FenceId fence) { give_slot(slot_index(fence)); }

std::size_t EventFences::event_count() const {
  const std::scoped_lock lock(slots_mutex_);
  std::size_t count = 0;
  for (const Slot& slot : slots_) count += slot.event ? 1 : 0;
  return count;
}

std::uint32_t EventFences::take_slot(int device) {
  const std::scoped_lock lock(slots_mutex_);
  std::vector<std::uint32_t>& idle = idle_slots_[device];
  if (!idle.empty()) {
    const std::uint32_t index = idle.back();
    idle.pop_back();
    return index;
  }
  if (idle.capacity() <= slots_.size()) idle.reserve(2 * slots_.size() + 1);  // so that give_slot cannot fail
  slots_.emplace_back().device = device;
  return static_cast<std::uint32_t>(slots_.size() - 1);
}

void EventFences::give_slot(std::uint32_t index) {
  const std::scoped_lock lock(slots_mutex_);
  Slot& slot = slots_[index];
  ++slot.generation;
  idle_slots_[slot.device].push_back(index);
}

void* EventFences::event_in(std::uint32_t index) {
  std::unique_lock lock(slots_mutex_);
  Slot& slot = slots_[index];
  if (!slot.event) {
    lock.unlock();
    DeviceEvent event = create_event(functions_);
    lock.lock();
    slot.event = std::move(event);
  }
  return slot.event.get();
}

FenceId EventFences::name(std::uint32_t index, bool recorded) {
  const std::scoped_lock lock(slots_mutex_);
  slots_[index].recorded = recorded;
  return FenceId{(std::uint64_t{slots_[index].generation} << 32) | (index + 1)};
}

std::optional<void*> EventFences::event_of(FenceId fence) const {
  const std::scoped_lock lock(slots_mutex_);
  const Slot& slot = slots_[slot_index(fence)];
  CISTERN_CHECK_EQ(slot.generation, fence.value >> 32);
  if (!slot.recorded) return std::nullopt;
  return slot.event.get();
}

}  // namespace cistern
