#include "captures.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

cudaError_t create_event(Runtime& state, cudaEvent_t* out, unsigned flags) {
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (out == nullptr || (flags & ~kKnown)) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) return cudaErrorInvalidValue;
  if (state.devices.empty()) return cudaErrorNoDevice;
  auto event = std::make_shared<Event>();
  event->device = thread_state().device;
  event->flags = flags;
  *out = state.events.insert(event);
  event->handle = *out;
  return cudaSuccess;
}

cudaError_t record_event(Runtime& state, cudaEvent_t handle, cudaStream_t stream_handle) {
  std::shared_ptr<Event>* found = state.events.find(handle);
  Stream* stream = find_stream(state, stream_handle);
  if (found == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  Event& event = **found;
  if (event.device != stream->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    if (stream->capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    event.capture = stream->capture;
    event.captured_after = stream->capture_tail;
    return cudaSuccess;
  }
  const cudaError_t error = submit(state, *stream, {}, cudaGraphNodeTypeEventRecord, &event.marker);
  if (error == cudaSuccess) event.capture.reset();
  return error;
}

/// Finds the event for a question that a capture forbids, and does `use` with it.
template <class Use>
cudaError_t question(const char* function, cudaEvent_t handle, Use use) {
  return runtime_call(function, [&](Runtime& state) {
    std::shared_ptr<Event>* event = state.events.find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if ((*event)->capture) {
      (*event)->capture->invalidated = true;
      return cudaErrorCapturedEvent;
    }
    if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
    return use(state, (*event)->marker);
  });
}

cudaError_t elapsed_time(Runtime& state, float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  std::uint64_t times[2] = {};
  const cudaEvent_t handles[2] = {start, end};
  for (int i = 0; i < 2; ++i) {
    std::shared_ptr<Event>* event = state.events.find(handles[i]);
    if (event == nullptr || !(*event)->marker || ((*event)->flags & cudaEventDisableTiming)) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!(*event)->marker->done) return cudaErrorNotReady;
    times[i] = (*event)->marker->done_at_ns;
  }
  *milliseconds = static_cast<float>(static_cast<double>(times[1]) - static_cast<double>(times[0])) / 1e6F;
  return cudaSuccess;
}

// What one process does is not seen by another: an event that came from elsewhere counts as done.
constexpr unsigned kSharedFlags = cudaEventInterprocess | cudaEventDisableTiming;

cudaError_t share_event(Runtime& state, cudaIpcEventHandle_t* out, cudaEvent_t handle) {
  const std::shared_ptr<Event>* event = state.events.find(handle);
  if (event == nullptr || !((*event)->flags & cudaEventInterprocess)) return cudaErrorInvalidResourceHandle;
  *out = {};
  return cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return runtime_call(__func__, [=](Runtime& state) { return create_event(state, event, 0); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return runtime_call(__func__, [=](Runtime& state) { return create_event(state, event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return runtime_call(__func__, [=](Runtime& state) {
    if (state.events.find(event) == nullptr) {
      state.misuse("cudaEventDestroy: " + hexadecimal(address_of(event)) + " is no event");
      return cudaErrorInvalidResourceHandle;
    }
    state.events.erase(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return runtime_call(__func__, [=](Runtime& state) { return record_event(state, event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return runtime_call(__func__, [=](Runtime& state) { return record_event(state, event, stream); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return question(__func__, event, [](Runtime&, const MarkerRef& marker) {
    return !marker || marker->done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return question(__func__, event, [](Runtime& state, MarkerRef marker) {
    if (marker) complete(state, marker);
    pump(state);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return runtime_call(__func__,
                      [=](Runtime& state) { return elapsed_time(state, milliseconds, start, end); });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t handle) {
  return runtime_call(__func__, [=](Runtime& state) { return share_event(state, out, handle); });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t) {
  return runtime_call(__func__, [=](Runtime& state) { return create_event(state, out, kSharedFlags); });
}
}
