// Devices as the runtime describes them.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "state.hpp"

namespace fake_cudart {
namespace {

constexpr int kVersion = 13000;
constexpr int kMajor = 9;
constexpr int kMinor = 0;
constexpr int kProcessors = 132;
constexpr int kThreadsPerBlock = 1024;
constexpr int kThreadsPerProcessor = 2048;
constexpr int kWarp = 32;
constexpr int kRegisters = 65536;
constexpr int kSharedBytes = 48 << 10;
constexpr int kSharedOptinBytes = 227 << 10;
constexpr int kSharedPerProcessorBytes = 228 << 10;

cudaError_t describe(const Runtime& state, cudaDeviceProp* out, int device) {
  if (!state.has_device(device)) return cudaErrorInvalidDevice;
  *out = {};
  std::snprintf(out->name, sizeof out->name, "Fake device %d", device);
  std::memset(&out->uuid, 0xFA, sizeof out->uuid);
  out->uuid.bytes[0] = static_cast<char>(device);
  out->totalGlobalMem = state.devices[static_cast<std::size_t>(device)].limit_bytes;
  out->sharedMemPerBlock = kSharedBytes;
  out->sharedMemPerBlockOptin = kSharedOptinBytes;
  out->sharedMemPerMultiprocessor = kSharedPerProcessorBytes;
  out->regsPerBlock = out->regsPerMultiprocessor = kRegisters;
  out->warpSize = kWarp;
  out->maxThreadsPerBlock = kThreadsPerBlock;
  out->maxThreadsPerMultiProcessor = kThreadsPerProcessor;
  out->maxBlocksPerMultiProcessor = kWarp;
  std::fill_n(out->maxThreadsDim, 3, kThreadsPerBlock);
  std::fill_n(out->maxGridSize, 3, 65535);
  out->major = kMajor;
  out->minor = kMinor;
  out->multiProcessorCount = kProcessors;
  out->textureAlignment = 512;
  out->canMapHostMemory = out->unifiedAddressing = out->managedMemory = out->concurrentManagedAccess = 1;
  out->concurrentKernels = out->cooperativeLaunch = out->streamPrioritiesSupported = 1;
  out->l2CacheSize = 50 << 20;
  out->memoryBusWidth = 5120;
  out->pciBusID = device + 1;
  return cudaSuccess;
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxBlockDimZ:
      return kThreadsPerBlock;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return kSharedBytes;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return kSharedOptinBytes;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return kSharedPerProcessorBytes;
    case cudaDevAttrWarpSize:
      return kWarp;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return kRegisters;
    case cudaDevAttrMultiProcessorCount:
      return kProcessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return kThreadsPerProcessor;
    case cudaDevAttrComputeCapabilityMajor:
      return kMajor;
    case cudaDevAttrComputeCapabilityMinor:
      return kMinor;
    case cudaDevAttrPciBusId:
      return device + 1;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCanMapHostMemory:
      return 1;
    default:
      return 0;
  }
}

// What only the driver's list knows; the rest has the numbers of the runtime's.
int driver_attribute_of(int device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      return 1;
    default:
      return attribute_of(device, static_cast<cudaDeviceAttr>(attribute));
  }
}

cudaError_t can_reach(const Runtime& state, int* out, int device, int peer) {
  if (!state.has_device(device) || !state.has_device(peer)) return cudaErrorInvalidDevice;
  *out = state.peer_possible && device != peer;
  return cudaSuccess;
}

cudaError_t enable_peer(Runtime& state, int peer) {
  const int device = thread_state().device;
  if (!state.has_device(peer) || peer == device) return cudaErrorInvalidDevice;
  if (!state.peer_possible) return cudaErrorPeerAccessUnsupported;
  const bool fresh = state.devices[static_cast<std::size_t>(device)].reachable.insert(peer).second;
  return fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return runtime_call(__func__, [=](Runtime& state) {
    *count = static_cast<int>(state.devices.size());
    return state.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return runtime_call(__func__, [=](Runtime& state) {
    *device = thread_state().device;
    return state.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return runtime_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device)) return cudaErrorInvalidDevice;
    thread_state().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return runtime_call(__func__, [=](Runtime& state) { return describe(state, out, device); });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return runtime_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device)) return cudaErrorInvalidDevice;
    *value = attribute_of(device, attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return runtime_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02X:00.0", static_cast<unsigned>(device + 1));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* out, int device, int peer) {
  return runtime_call(__func__, [=](Runtime& state) { return can_reach(state, out, device, peer); });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return runtime_call(__func__, [=](Runtime& state) { return enable_peer(state, peer); });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return runtime_call(__func__, [=](Runtime& state) {
    if (state.devices.empty()) return cudaErrorNoDevice;
    const bool was =
        state.devices[static_cast<std::size_t>(thread_state().device)].reachable.erase(peer) != 0;
    return was ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return runtime_call(__func__, [=](Runtime&) {
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return runtime_call(__func__, [=](Runtime&) {
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaProfilerStart() {
  return runtime_call(__func__, [](Runtime&) { return cudaSuccess; });
}

cudaError_t cudaProfilerStop() {
  return runtime_call(__func__, [](Runtime&) { return cudaSuccess; });
}

CUresult cuInit(unsigned) {
  return driver_call(
      __func__, [](Runtime& state) { return state.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; });
}

CUresult cuDriverGetVersion(int* version) {
  return driver_call(__func__, [=](Runtime&) {
    *version = kVersion;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return driver_call(__func__, [=](Runtime& state) {
    *count = static_cast<int>(state.devices.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  return driver_call(__func__, [=](Runtime& state) {
    if (!state.has_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = driver_attribute_of(device, attribute);
    return CUDA_SUCCESS;
  });
}
}
