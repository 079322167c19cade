// How programs find the driver's functions: by the runtime's lookup; or by dlsym, which needs no code here.
#include <dlfcn.h>

#include <cctype>
#include <cstring>
#include <string>

#include "state.hpp"

namespace fake_cudart {
namespace {

/// The function of that name in this library. Found by its present version if it has several.
void* find_driver_function(const char* name) {
  if (name[0] != 'c' || name[1] != 'u' || std::isupper(static_cast<unsigned char>(name[2])) == 0)
    return nullptr;
  for (const char* version : {"_v2", ""}) {
    if (void* found = dlvsym(RTLD_DEFAULT, (std::string(name) + version).c_str(), "libcudart.so.13"))
      return found;
  }
  return nullptr;
}

cudaError_t look_up(const char* name, void** out, cudaDriverEntryPointQueryResult* status) {
  if (name == nullptr || out == nullptr) return cudaErrorInvalidValue;
  *out = find_driver_function(name);
  if (status != nullptr)
    *status = *out == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return *out == nullptr && status == nullptr ? cudaErrorSymbolNotFound : cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  return runtime_call(__func__, [=](Runtime&) { return look_up(name, out, status); });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  return runtime_call(__func__, [=](Runtime&) { return look_up(name, out, status); });
}

CUresult cuGetProcAddress(const char* name, void** out, int, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
  return driver_call(__func__, [=](Runtime&) {
    *out = find_driver_function(name);
    const bool found = *out != nullptr;
    if (status != nullptr)
      *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}
}
