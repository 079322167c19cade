// The runtime's own stream-ordered pools: devices say that they have none, and refuse what is asked of them.
#include "state.hpp"

namespace fake_cudart {
namespace {

cudaError_t refuse(const char* function) {
  return runtime_call(function, [](Runtime&) { return cudaErrorNotSupported; });
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) {
  return refuse(__func__);
}
cudaError_t cudaMallocAsync(void**, std::size_t, cudaStream_t) {
  return refuse(__func__);
}
cudaError_t cudaFreeAsync(void*, cudaStream_t) {
  return refuse(__func__);
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return refuse(__func__);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return refuse(__func__);
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  return refuse(__func__);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  return refuse(__func__);
}
}
