// Copies and fills: real bytes, in the order of streams.
#include <cstring>

#include "captures.hpp"
#include "memory.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;  ///< Of a row.
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
  std::size_t rows = 1;

  std::size_t span_of(std::size_t pitch) const { return rows == 0 ? 0 : (rows - 1) * pitch + bytes; }
  Span to_span() const { return {address_of(to), span_of(to_pitch)}; }
  Span from_span() const { return {address_of(from), span_of(from_pitch)}; }
};

// Not std::memmove over the whole: pitches may differ.
void perform(const Copy& copy) {
  for (std::size_t row = 0; row < copy.rows; ++row) {
    std::memmove(static_cast<char*>(copy.to) + row * copy.to_pitch,
                 static_cast<const char*>(copy.from) + row * copy.from_pitch, copy.bytes);
  }
}

bool is_pageable(const Runtime& state, const void* pointer) {
  return find_allocation(state, address_of(pointer)) == nullptr && !is_on_device(state, address_of(pointer));
}

// A side that `kind` calls device memory must be some.
bool fits_kind(const Runtime& state, const Copy& copy, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return (!to_device || is_on_device(state, address_of(copy.to))) &&
         (!from_device || is_on_device(state, address_of(copy.from)));
}

// As the driver does: pageable memory is read before the call returns, and written before it returns.
cudaError_t submit_copy(Runtime& state, Stream& stream, const Copy& copy) {
  if (stream.capture) {
    return submit(state, stream,
                  {.run = [copy] { perform(copy); }, .touches = {copy.to_span(), copy.from_span()}},
                  cudaGraphNodeTypeMemcpy);
  }
  Work work{.touches = {copy.to_span(), copy.from_span()}};
  if (is_pageable(state, copy.from) && (stream.held || !stream.queue.empty())) {
    const char* begin = static_cast<const char*>(copy.from);
    auto staged = std::make_shared<std::vector<char>>(begin, begin + copy.from_span().bytes);
    Copy from_stage = copy;
    from_stage.from = staged->data();
    work.run = [from_stage, staged] { perform(from_stage); };
  } else {
    work.run = [copy] { perform(copy); };
  }
  MarkerRef marker;
  const cudaError_t error = submit(state, stream, std::move(work), cudaGraphNodeTypeMemcpy, &marker);
  if (error != cudaSuccess) return error;
  if (is_pageable(state, copy.to)) complete(state, marker);
  pump(state);
  return cudaSuccess;
}

/// Copies as work of `stream`, whose device must be able to touch both sides.
cudaError_t copy_async(Runtime& state, const char* function, const Copy& copy, cudaMemcpyKind kind,
                       cudaStream_t handle) {
  Stream* stream = find_stream(state, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (copy.span_of(1) == 0) return cudaSuccess;
  if (!fits_kind(state, copy, kind)) {
    state.misuse(std::string(function) + ": " + hexadecimal(address_of(copy.to)) + " or " +
                 hexadecimal(address_of(copy.from)) + " is no device memory");
    return cudaErrorInvalidValue;
  }
  for (const Span& side : {copy.to_span(), copy.from_span()}) {
    const cudaError_t error = check_touch(state, function, stream->device, side);
    if (error != cudaSuccess) return error;
  }
  return submit_copy(state, *stream, copy);
}

cudaError_t copy_now(Runtime& state, const char* function, const Copy& copy, cudaMemcpyKind kind) {
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  const cudaError_t error = copy_async(state, function, copy, kind, cudaStreamLegacy);
  if (error == cudaSuccess) complete_stream(state, *find_stream(state, cudaStreamLegacy));
  return error;
}

/// Each side is touched by its own device.
cudaError_t copy_between(Runtime& state, const char* function, const Copy& copy, int to_device,
                         int from_device, cudaStream_t handle) {
  Stream* stream = find_stream(state, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!state.has_device(to_device) || !state.has_device(from_device)) return cudaErrorInvalidDevice;
  if (copy.bytes == 0) return cudaSuccess;
  if (const cudaError_t error = check_touch(state, function, to_device, copy.to_span());
      error != cudaSuccess) {
    return error;
  }
  if (const cudaError_t error = check_touch(state, function, from_device, copy.from_span());
      error != cudaSuccess) {
    return error;
  }
  return submit_copy(state, *stream, copy);
}

cudaError_t fill(Runtime& state, const char* function, void* to, std::uint32_t value, std::size_t width,
                 std::size_t count, cudaStream_t handle) {
  Stream* stream = find_stream(state, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const Span span{address_of(to), width * count};
  if (span.bytes == 0) return cudaSuccess;
  if (!is_on_device(state, span.begin) && find_allocation(state, span.begin) == nullptr) {
    state.misuse(std::string(function) + ": " + hexadecimal(span.begin) + " is no memory of ours");
    return cudaErrorInvalidValue;
  }
  if (const cudaError_t error = check_touch(state, function, stream->device, span); error != cudaSuccess)
    return error;
  const auto run = [=] {
    for (std::size_t i = 0; width > 1 && i < count; ++i) {
      std::memcpy(static_cast<char*>(to) + i * width, &value, width);
    }
    if (width == 1) std::memset(to, static_cast<int>(value), count);
  };
  return submit(state, *stream, {.run = run, .touches = {span}}, cudaGraphNodeTypeMemset);
}

Copy plain(void* to, const void* from, std::size_t bytes) {
  return {.to = to, .from = from, .bytes = bytes};
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const char* function = __func__;
  return runtime_call(
      function, [=](Runtime& state) { return copy_now(state, function, plain(to, from, bytes), kind); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const char* function = __func__;
  return runtime_call(function, [=](Runtime& state) {
    return copy_async(state, function, plain(to, from, bytes), kind, stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const char* function = __func__;
  return runtime_call(function, [=](Runtime& state) {
    const Copy copy{to, from, width, to_pitch, from_pitch, width == 0 ? 0 : height};
    return copy_async(state, function, copy, kind, stream);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const char* function = __func__;
  return runtime_call(function, [=](Runtime& state) {
    return copy_between(state, function, plain(to, from, bytes), to_device, from_device, stream);
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  const char* function = __func__;
  return runtime_call(function, [=](Runtime& state) {
    if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
    return fill(state, function, to, static_cast<unsigned char>(value), 1, bytes, cudaStreamLegacy);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const char* function = __func__;
  return runtime_call(function, [=](Runtime& state) {
    return fill(state, function, to, static_cast<unsigned char>(value), 1, bytes, stream);
  });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  const char* function = __func__;
  return driver_call(function, [=](Runtime& state) {
    return static_cast<CUresult>(fill(state, function, pointer_to(to), value, sizeof value, count, stream));
  });
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned) {
  const char* function = __func__;
  return driver_call(function, [=](Runtime& state) {
    return static_cast<CUresult>(fill(state, function, pointer_to(to), value, sizeof value, 1, stream));
  });
}
}
