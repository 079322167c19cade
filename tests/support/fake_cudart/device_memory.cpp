// cudaMalloc and pinned host memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "captures.hpp"
#include "memory.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

constexpr std::size_t kMallocStep = 512;

std::size_t charged_bytes(std::size_t bytes) {
  return (bytes + kMallocStep - 1) / kMallocStep * kMallocStep;
}

cudaError_t allocate_device(Runtime& state, void** out, std::size_t bytes, MemoryKind kind) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = nullptr;
  if (state.devices.empty()) return cudaErrorNoDevice;
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  const int device = thread_state().device;
  if (bytes > state.devices[static_cast<std::size_t>(device)].limit_bytes) return cudaErrorMemoryAllocation;
  if (!state.claim(device, charged_bytes(bytes))) return cudaErrorMemoryAllocation;
  *out = map_pages(bytes, bytes < kGranuleBytes ? 0 : kGranuleBytes, PROT_READ | PROT_WRITE);
  if (*out == nullptr) {
    state.refund(device, charged_bytes(bytes));
    return cudaErrorMemoryAllocation;
  }
  state.allocations[address_of(*out)] = {.span = {address_of(*out), bytes}, .device = device, .kind = kind};
  return cudaSuccess;
}

// The driver frees only when the device has done all it was asked; work of other devices it does not wait
// for.
cudaError_t free_device(Runtime& state, void* pointer) {
  if (state.devices.empty()) return cudaErrorNoDevice;
  if (const cudaError_t error = refuse_unsafe(state); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  const auto found = state.allocations.find(address_of(pointer));
  if (found == state.allocations.end() || found->second.kind > MemoryKind::kManaged) {
    state.misuse("cudaFree: " + hexadecimal(address_of(pointer)) + " is no live allocation");
    return cudaErrorInvalidValue;
  }
  const Allocation allocation = found->second;
  if (stream_that_touches(state, allocation.span) != nullptr) ++state.implicit_waits;
  complete_device(state, allocation.device);
  if (const Stream* stream = stream_that_touches(state, allocation.span)) {
    state.misuse("cudaFree: " + hexadecimal(allocation.span.begin) + " is still used by stream " +
                 std::to_string(stream->id) + " of device " + std::to_string(stream->device));
  }
  state.allocations.erase(allocation.span.begin);
  unmap_pages(allocation.span);
  state.refund(allocation.device, charged_bytes(allocation.span.bytes));
  return cudaSuccess;
}

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

cudaError_t pointer_attributes(const Runtime& state, cudaPointerAttributes* out, const void* pointer) {
  *out = {};
  out->device = device_of(state, address_of(pointer));
  if (out->device >= 0) {
    const Allocation* allocation = find_allocation(state, address_of(pointer));
    const bool managed = allocation != nullptr && allocation->kind == MemoryKind::kManaged;
    out->type = managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
    out->devicePointer = const_cast<void*>(pointer);
    if (managed) out->hostPointer = out->devicePointer;
  } else if (const Allocation* allocation = find_allocation(state, address_of(pointer))) {
    out->type = cudaMemoryTypeHost;
    out->device = allocation->device;
    out->devicePointer = out->hostPointer = const_cast<void*>(pointer);
  } else {
    out->type = cudaMemoryTypeUnregistered;
    out->hostPointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}

/// What a handle for another process says. Memory itself is shared only within this one.
struct IpcContent {
  char magic[8] = "fakeipc";
  int process = 0;
  Address address = 0;
};
static_assert(sizeof(IpcContent) <= sizeof(cudaIpcMemHandle_t));

cudaError_t share(const Runtime& state, cudaIpcMemHandle_t* out, void* pointer) {
  const Allocation* allocation = find_allocation(state, address_of(pointer));
  if (allocation == nullptr || allocation->kind != MemoryKind::kDevice) return cudaErrorInvalidValue;
  IpcContent content;
  content.process = getpid();
  content.address = allocation->span.begin;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &content, sizeof content);
  return cudaSuccess;
}

// The driver refuses a handle in the process that made it; here that is where one can be opened at all.
cudaError_t open_shared(const Runtime& state, void** out, const cudaIpcMemHandle_t& handle) {
  IpcContent content;
  std::memcpy(static_cast<void*>(&content), &handle, sizeof content);
  if (std::memcmp(content.magic, IpcContent{}.magic, sizeof content.magic) != 0) return cudaErrorInvalidValue;
  if (content.process != getpid() || state.allocations.count(content.address) == 0)
    return cudaErrorMapBufferObjectFailed;
  *out = pointer_to(content.address);
  return cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return runtime_call(
      __func__, [=](Runtime& state) { return allocate_device(state, out, bytes, MemoryKind::kDevice); });
}

cudaError_t cudaMallocManaged(void** out, std::size_t bytes, unsigned) {
  return runtime_call(
      __func__, [=](Runtime& state) { return allocate_device(state, out, bytes, MemoryKind::kManaged); });
}

cudaError_t cudaFree(void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return free_device(state, pointer); });
}

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

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return pointer_attributes(state, out, pointer); });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return runtime_call(__func__, [=](Runtime& state) {
    if (state.devices.empty()) return cudaErrorNoDevice;
    const Device& device = state.devices[static_cast<std::size_t>(thread_state().device)];
    *total_bytes = device.limit_bytes;
    *free_bytes = device.used_bytes < device.limit_bytes ? device.limit_bytes - device.used_bytes : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return share(state, out, pointer); });
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned) {
  return runtime_call(__func__, [&](Runtime& state) { return open_shared(state, out, handle); });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) {
    return find_allocation(state, address_of(pointer)) == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}
}
