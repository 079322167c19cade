// Memory from cudaMalloc, and what pointers are.
#include <sys/mman.h>

#include "captures.hpp"
#include "memory.hpp"
#include "memory_file.hpp"
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
  const std::optional<std::uint64_t> offset =
      take_stretch(state.devices[static_cast<std::size_t>(device)], bytes);
  void* const pages =
      offset ? map_pages(bytes, bytes < kGranuleBytes ? 0 : kGranuleBytes, PROT_NONE) : nullptr;
  if (pages == nullptr ||
      mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           state.devices[static_cast<std::size_t>(device)].file, static_cast<off_t>(*offset)) == MAP_FAILED) {
    state.refund(device, charged_bytes(bytes));
    return cudaErrorMemoryAllocation;
  }
  *out = pages;
  state.allocations[address_of(pages)] = {
      .span = {address_of(pages), bytes}, .device = device, .kind = kind, .offset = *offset};
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
  give_back_stretch(state.devices[static_cast<std::size_t>(allocation.device)].file, allocation.offset,
                    allocation.span.bytes);
  state.refund(allocation.device, charged_bytes(allocation.span.bytes));
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
}
