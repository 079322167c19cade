// The table itself. Private to sources/cuda and the CUDA adapters: the only header here that needs CUDA's own.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "cistern/sources/cuda/driver_error.hpp"

// Of the runtime: all of them must be there.
#define CISTERN_RUNTIME_FUNCTIONS(X) X(cudaMalloc) X(cudaHostAlloc) CISTERN_PLAIN_RUNTIME_FUNCTIONS(X)
#define CISTERN_PLAIN_RUNTIME_FUNCTIONS(X)                                                             \
  X(cudaFree) X(cudaFreeHost) X(cudaMemGetInfo)                                                        \
  X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpyPeerAsync)                                              \
  X(cudaGetDeviceCount) X(cudaGetDevice) X(cudaSetDevice) X(cudaDeviceGetAttribute)                    \
  X(cudaDeviceSynchronize) X(cudaDeviceCanAccessPeer) X(cudaDeviceEnablePeerAccess)                    \
  X(cudaGetLastError) X(cudaGetErrorName) X(cudaGetErrorString)                                        \
  X(cudaEventCreateWithFlags) X(cudaEventDestroy) X(cudaEventRecord) X(cudaEventQuery)                 \
  X(cudaEventSynchronize) X(cudaStreamWaitEvent) X(cudaStreamGetId) X(cudaStreamIsCapturing)           \
  X(cudaThreadExchangeStreamCaptureMode)                                                               \
  X(cudaIpcGetMemHandle) X(cudaIpcOpenMemHandle) X(cudaIpcCloseMemHandle)                              \
  X(cudaGetDriverEntryPointByVersion)

// Of the driver: found through the runtime; without them there is no VMM.
#define CISTERN_VMM_FUNCTIONS(X)                                                                       \
  X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuGetErrorName) X(cuGetErrorString)                         \
  X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap)  \
  X(cuMemSetAccess) X(cuMemGetAllocationGranularity)                                                   \
  X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)

namespace cistern {

struct DriverFunctions {
  // To these two cuda_runtime.h, which torch's headers bring along, adds templates of the same name.
  cudaError_t (*cudaMalloc)(void** address, std::size_t bytes) = nullptr;
  cudaError_t (*cudaHostAlloc)(void** address, std::size_t bytes, unsigned flags) = nullptr;
#define CISTERN_MEMBER(name) decltype(&::name) name = nullptr;
  CISTERN_PLAIN_RUNTIME_FUNCTIONS(CISTERN_MEMBER)
  CISTERN_VMM_FUNCTIONS(CISTERN_MEMBER)
#undef CISTERN_MEMBER
  const char* missing_vmm_function = nullptr;  ///< The first that the driver does not have.

  /// What a failed call was, with its name. Clears the runtime's last error, so that nobody else meets it.
  DriverError error(const char* call, cudaError_t code) const;
  DriverError error(const char* call, CUresult code) const;
  /// Throws it unless the call succeeded.
  void check(const char* call, cudaError_t code) const {
    if (code != cudaSuccess) throw error(call, code);
  }
  void check(const char* call, CUresult code) const {
    if (code != CUDA_SUCCESS) throw error(call, code);
  }
  /// As check, for what gives back or waits: a driver that is unloading has done it.
  void settle(const char* call, cudaError_t code) const;
  /// True for success, false when memory ran out (the last error is then cleared), else throws.
  bool granted(const char* call, cudaError_t code) const;
  bool granted(const char* call, CUresult code) const;
};

// Runtime and driver number these alike.
/// The process is ending and the driver with it: whatever was to be given back is gone.
inline bool means_unloading(int code) noexcept { return code == cudaErrorCudartUnloading; }
/// Refused because a stream captures.
inline bool means_capturing(int code) noexcept {
  return code >= cudaErrorStreamCaptureUnsupported && code <= cudaErrorStreamCaptureWrongThread;
}

}  // namespace cistern
