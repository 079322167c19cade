// Pinned host memory.
#include <sys/mman.h>

#include "captures.hpp"
#include "memory.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

cudaError_t allocate_host(Runtime& state, void** out, std::size_t bytes, unsigned flags) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  if (state.devices.empty()) return cudaErrorNoDevice;
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (bytes > state.fail_above_bytes) return cudaErrorMemoryAllocation;
  *out = map_pages(bytes, 0, PROT_READ | PROT_WRITE);
  if (*out == nullptr) return cudaErrorMemoryAllocation;
  state.allocations[address_of(*out)] = {.span = {address_of(*out), bytes},
                                         .device = thread_state().device,
                                         .kind = MemoryKind::kHost,
                                         .flags = flags};
  return cudaSuccess;
}

cudaError_t free_host(Runtime& state, void* pointer) {
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  const auto found = state.allocations.find(address_of(pointer));
  if (found == state.allocations.end() || found->second.kind != MemoryKind::kHost) {
    state.misuse("cudaFreeHost: " + hexadecimal(address_of(pointer)) + " is no live allocation");
    return cudaErrorInvalidValue;
  }
  const Span span = found->second.span;
  if (const Stream* stream = stream_that_touches(state, span)) {
    state.misuse("cudaFreeHost: " + hexadecimal(span.begin) + " is still used by stream " +
                 std::to_string(stream->id));
  }
  state.allocations.erase(found);
  unmap_pages(span);
  return cudaSuccess;
}

cudaError_t register_host(Runtime& state, void* pointer, std::size_t bytes, unsigned flags) {
  if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  const Span span{address_of(pointer), bytes};
  const auto next = state.allocations.lower_bound(span.end());
  if (next != state.allocations.begin() && std::prev(next)->second.span.overlaps(span)) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  state.allocations[span.begin] = {
      .span = span, .device = thread_state().device, .kind = MemoryKind::kRegistered, .flags = flags};
  return cudaSuccess;
}

cudaError_t unregister_host(Runtime& state, void* pointer) {
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  const auto found = state.allocations.find(address_of(pointer));
  if (found == state.allocations.end() || found->second.kind != MemoryKind::kRegistered) {
    return cudaErrorHostMemoryNotRegistered;
  }
  state.allocations.erase(found);
  return cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  return runtime_call(__func__, [=](Runtime& state) { return allocate_host(state, out, bytes, flags); });
}

cudaError_t cudaMallocHost(void** out, std::size_t bytes) {
  return runtime_call(__func__, [=](Runtime& state) { return allocate_host(state, out, bytes, 0); });
}

cudaError_t cudaFreeHost(void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return free_host(state, pointer); });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return runtime_call(__func__, [=](Runtime& state) { return register_host(state, pointer, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return unregister_host(state, pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* pointer, unsigned) {
  return runtime_call(__func__, [=](Runtime& state) {
    *out = pointer;
    return find_allocation(state, address_of(pointer)) == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}
}
