// Memory from cudaMalloc, shared with other processes that use this runtime.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "memory.hpp"
#include "memory_file.hpp"

namespace fake_cudart {
namespace {

/// What a handle says.
struct HandleContent {
  char magic[8] = "fakeipc";
  int process = 0;
  int device = 0;
  int file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(HandleContent) <= sizeof(cudaIpcMemHandle_t));

cudaError_t share(const Runtime& state, cudaIpcMemHandle_t* out, void* pointer) {
  const Allocation* allocation = find_allocation(state, address_of(pointer));
  if (allocation == nullptr || allocation->kind != MemoryKind::kDevice) return cudaErrorInvalidValue;
  HandleContent content;
  content.process = getpid();
  content.device = allocation->device;
  content.file = state.devices[static_cast<std::size_t>(allocation->device)].file;
  content.offset = allocation->offset;
  content.bytes = allocation->span.bytes;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &content, sizeof content);
  return cudaSuccess;
}

// As the driver, this refuses the process that made the handle.
cudaError_t open_shared(Runtime& state, void** out, const cudaIpcMemHandle_t& handle) {
  HandleContent content;
  std::memcpy(static_cast<void*>(&content), &handle, sizeof content);
  if (std::memcmp(content.magic, HandleContent{}.magic, sizeof content.magic) != 0)
    return cudaErrorInvalidValue;
  if (content.process == getpid()) return cudaErrorDeviceUninitialized;
  if (!state.has_device(content.device)) return cudaErrorInvalidDevice;
  const std::string path = "/proc/" + std::to_string(content.process) + "/fd/" + std::to_string(content.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorMapBufferObjectFailed;
  *out = mmap(nullptr, content.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
              static_cast<off_t>(content.offset));
  close(file);
  if (*out == MAP_FAILED) return cudaErrorMapBufferObjectFailed;
  state.allocations[address_of(*out)] = {
      .span = {address_of(*out), content.bytes}, .device = content.device, .kind = MemoryKind::kIpc};
  return cudaSuccess;
}

cudaError_t close_shared(Runtime& state, void* pointer) {
  const auto found = state.allocations.find(address_of(pointer));
  if (found == state.allocations.end() || found->second.kind != MemoryKind::kIpc) {
    state.misuse("cudaIpcCloseMemHandle: " + hexadecimal(address_of(pointer)) + " was not opened");
    return cudaErrorInvalidValue;
  }
  unmap_pages(found->second.span);
  state.allocations.erase(found);
  return cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return share(state, out, pointer); });
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned) {
  return runtime_call(__func__, [&](Runtime& state) { return open_shared(state, out, handle); });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return runtime_call(__func__, [=](Runtime& state) { return close_shared(state, pointer); });
}
}
