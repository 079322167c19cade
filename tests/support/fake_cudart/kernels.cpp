// Kernels: registered, described, launched; what they compute stays undone.
#include <cstdlib>
#include <cstring>

#include "captures.hpp"
#include "memory.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

/// Of the launch that the compiler's stub is about to make; by thread, as the compiler nests them.
struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<LaunchConfiguration> configurations;

bool kernels_fail() {
  const char* mode = std::getenv("FAKE_CUDART_KERNELS");
  return mode != nullptr && std::strcmp(mode, "error") == 0;
}

cudaError_t launch_kernel(Runtime& state, cudaStream_t handle) {
  Stream* stream = find_stream(state, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (kernels_fail()) return cudaErrorNoKernelImageForDevice;
  return submit(state, *stream, {}, cudaGraphNodeTypeKernel);
}

cudaError_t describe_kernel(cudaFuncAttributes* out) {
  *out = {};
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->ptxVersion = out->binaryVersion = 90;
  out->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}

// Device variables live where their host shadows do.
cudaError_t copy_to_symbol(Runtime&, const void* symbol, const void* from, std::size_t bytes,
                           std::size_t offset) {
  std::memcpy(static_cast<char*>(const_cast<void*>(symbol)) + offset, from, bytes);
  return cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

// Registration happens by the thousand before main, so it is not counted; the handle only has to be some
// address.

void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** binary);
void __cudaUnregisterFatBinary(void** binary);
char __cudaInitModule(void** binary);
void __cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int thread_limit,
                            uint3* thread, uint3* block, dim3* block_dim, dim3* grid_dim, int* warp);
void __cudaRegisterVar(void** binary, char* host, char* device, const char* name, int external,
                       std::size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void** binary, void** host, char* device, const char* name, int external,
                              std::size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream);

void** __cudaRegisterFatBinary(void* binary) {
  return static_cast<void**>(binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return cudaErrorInvalidValue;
  const LaunchConfiguration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return runtime_call("cudaLaunchKernel", [=](Runtime& state) { return launch_kernel(state, stream); });
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return runtime_call(__func__, [=](Runtime& state) { return launch_kernel(state, stream); });
}

cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return runtime_call(__func__, [=](Runtime& state) { return launch_kernel(state, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void*, void**) {
  return runtime_call(__func__, [=](Runtime& state) { return launch_kernel(state, configuration->stream); });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void*) {
  return runtime_call(__func__, [=](Runtime&) { return describe_kernel(out); });
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return runtime_call(__func__, [](Runtime&) { return cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void*, int, std::size_t) {
  return runtime_call(__func__, [=](Runtime&) {
    *count = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void*, int, std::size_t,
                                                                   unsigned) {
  return runtime_call(__func__, [=](Runtime&) {
    *count = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  return runtime_call(__func__, [=](Runtime&) {
    *out = const_cast<void*>(symbol);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind) {
  return runtime_call(__func__,
                      [=](Runtime& state) { return copy_to_symbol(state, symbol, from, bytes, offset); });
}

CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void**, void**) {
  return driver_call(__func__,
                     [=](Runtime& state) { return static_cast<CUresult>(launch_kernel(state, stream)); });
}

CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   unsigned, CUstream stream, void**) {
  return driver_call(__func__,
                     [=](Runtime& state) { return static_cast<CUresult>(launch_kernel(state, stream)); });
}
}
