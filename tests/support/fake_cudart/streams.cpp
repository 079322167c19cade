#include "streams.hpp"

#include "captures.hpp"

namespace fake_cudart {
namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

cudaError_t create_stream(Runtime& state, cudaStream_t* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking))) return cudaErrorInvalidValue;
  if (state.devices.empty()) return cudaErrorNoDevice;
  auto stream = std::make_unique<Stream>();
  stream->id = state.next_id++;
  stream->device = thread_state().device;
  stream->flags = flags;
  stream->priority = std::min(kLeastPriority, std::max(kGreatestPriority, priority));
  stream->handle = *out = state.streams.insert(stream.get());
  state.every_stream.push_back(std::move(stream));
  return cudaSuccess;
}

// Work that is queued will be done all the same.
cudaError_t destroy_stream(Runtime& state, cudaStream_t handle) {
  Stream** found = state.streams.find(handle);
  if (found == nullptr) {
    state.misuse("cudaStreamDestroy: " + hexadecimal(address_of(handle)) + " is no stream");
    return cudaErrorInvalidResourceHandle;
  }
  Stream& stream = **found;
  if (stream.capture) stream.capture->invalidated = true;
  stream.destroyed = true;
  state.streams.erase(handle);
  return cudaSuccess;
}

/// Finds the stream and does `use` with it.
template <class Use>
cudaError_t stream_call(const char* function, cudaStream_t handle, Use use) {
  return runtime_call(function, [&](Runtime& state) {
    if (state.devices.empty()) return cudaErrorNoDevice;
    Stream* stream = find_stream(state, handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : use(state, *stream);
  });
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return runtime_call(__func__, [=](Runtime& state) { return create_stream(state, stream, 0, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return runtime_call(__func__, [=](Runtime& state) { return create_stream(state, stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return runtime_call(__func__,
                      [=](Runtime& state) { return create_stream(state, stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return runtime_call(__func__, [=](Runtime& state) { return destroy_stream(state, stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return stream_call(__func__, handle, [](Runtime& state, Stream& stream) {
    if (const cudaError_t error = refuse_captured(stream); error != cudaSuccess) return error;
    if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
    return stream.queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return stream_call(__func__, handle, [](Runtime& state, Stream& stream) {
    if (const cudaError_t error = refuse_captured(stream); error != cudaSuccess) return error;
    if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
    complete_stream(state, stream);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return runtime_call(__func__, [](Runtime& state) {
    if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
    complete_device(state, thread_state().device);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return stream_call(__func__, handle, [=](Runtime&, Stream& stream) {
    *id = stream.id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return stream_call(__func__, handle, [=](Runtime&, Stream& stream) {
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return stream_call(__func__, handle, [=](Runtime&, Stream& stream) {
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return stream_call(__func__, handle, [=](Runtime&, Stream& stream) {
    *device = stream.device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return runtime_call(__func__, [=](Runtime&) {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return stream_call(__func__, handle, [=](Runtime& state, Stream& stream) {
    std::shared_ptr<Event>* event = state.events.find(event_handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream.capture || (*event)->capture) return capture_wait(state, stream, **event);
    if (!(*event)->marker) return cudaSuccess;
    return submit(state, stream, {.waits = {(*event)->marker}}, cudaGraphNodeTypeWaitEvent);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return stream_call(__func__, handle, [=](Runtime& state, Stream& stream) {
    return submit(state, stream, {.run = [=] { function(data); }, .calls_back = true}, cudaGraphNodeTypeHost);
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data, unsigned) {
  return stream_call(__func__, handle, [=](Runtime& state, Stream& stream) {
    if (const cudaError_t error = refuse_captured(stream); error != cudaSuccess) return error;
    return submit(state, stream, {.run = [=] { function(handle, cudaSuccess, data); }, .calls_back = true},
                  cudaGraphNodeTypeHost);
  });
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return static_cast<CUresult>(cudaStreamGetId(stream, id));
}
}
