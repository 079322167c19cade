// Names and texts of errors, and the thread's last one.
#include <cstdlib>

#include "state.hpp"

namespace fake_cudart {
namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define FAKE_CUDART_ERROR(name, text) \
  ErrorText {                         \
    name, #name, text                 \
  }

constexpr ErrorText kErrors[] = {
    FAKE_CUDART_ERROR(cudaSuccess, "no error"),
    FAKE_CUDART_ERROR(cudaErrorInvalidValue, "invalid argument"),
    FAKE_CUDART_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    FAKE_CUDART_ERROR(cudaErrorInitializationError, "initialization error"),
    FAKE_CUDART_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    FAKE_CUDART_ERROR(cudaErrorInsufficientDriver,
                      "CUDA driver version is insufficient for CUDA runtime version"),
    FAKE_CUDART_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    FAKE_CUDART_ERROR(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    FAKE_CUDART_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    FAKE_CUDART_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    FAKE_CUDART_ERROR(cudaErrorNoKernelImageForDevice,
                      "no kernel image is available for execution on the device"),
    FAKE_CUDART_ERROR(cudaErrorPeerAccessUnsupported,
                      "peer access is not supported between these two devices"),
    FAKE_CUDART_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    FAKE_CUDART_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    FAKE_CUDART_ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    FAKE_CUDART_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    FAKE_CUDART_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    FAKE_CUDART_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    FAKE_CUDART_ERROR(cudaErrorNotReady, "device not ready"),
    FAKE_CUDART_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    FAKE_CUDART_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    FAKE_CUDART_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                      "part or all of the memory is already registered"),
    FAKE_CUDART_ERROR(cudaErrorHostMemoryNotRegistered, "the memory is not registered"),
    FAKE_CUDART_ERROR(cudaErrorNotSupported, "operation not supported"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureInvalidated,
                      "operation failed due to a previous error during capture"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureMerge, "operation would merge two captures"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not begun on this stream"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureUnjoined,
                      "capture has streams that were not joined to the first"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureIsolation, "dependency on work outside the capture"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureImplicit,
                      "operation would depend on a capturing stream implicitly"),
    FAKE_CUDART_ERROR(cudaErrorCapturedEvent,
                      "operation not permitted on an event last recorded in a capture"),
    FAKE_CUDART_ERROR(cudaErrorStreamCaptureWrongThread, "capture cannot be ended from this thread"),
};

#undef FAKE_CUDART_ERROR

const ErrorText* find_error(int error) {
  for (const ErrorText& known : kErrors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

CUresult answer(const char** out, const char* text) {
  *out = text;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

// Neither counted nor made to fail: the first thing anyone asks after a failure.
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(runtime().mutex);
  return std::exchange(thread_state().last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(runtime().mutex);
  return thread_state().last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* known = find_error(error);
  return known == nullptr ? "unrecognized error code" : known->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* known = find_error(error);
  return known == nullptr ? "unrecognized error code" : known->text;
}

CUresult cuGetErrorString(CUresult error, const char** out) {
  const ErrorText* known = find_error(error);
  return answer(out, known == nullptr ? nullptr : known->text);
}

CUresult cuGetErrorName(CUresult error, const char** out) {
  const ErrorText* known = find_error(error);
  return answer(out, known == nullptr ? nullptr : known->name);
}
}
