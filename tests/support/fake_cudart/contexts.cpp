// Contexts and modules of the driver: one context for each device, always there; nothing can be loaded.
#include "memory.hpp"
#include "state.hpp"

namespace fake_cudart {
namespace {

/// A device's context is its number, counted from 1.
CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<std::intptr_t>(device) + 1);
}
int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1;
}

CUresult refuse(const char* function) {
  return driver_call(function, [](Runtime&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult pointer_attribute(const Runtime& state, void* out, CUpointer_attribute attribute, Address address) {
  const int device = device_of(state, address);
  const Allocation* allocation = find_allocation(state, address);
  if (device < 0 && allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = context_of(device < 0 ? allocation->device : device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = device < 0 ? allocation->device : device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<unsigned*>(out) = device >= 0 && allocation != nullptr;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

CUresult cuCtxGetCurrent(CUcontext* out) {
  return driver_call(__func__, [=](Runtime&) {
    *out = context_of(thread_state().device);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device_of(context))) return CUDA_ERROR_INVALID_CONTEXT;
    thread_state().device = device_of(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return driver_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  return driver_call(__func__, [=](Runtime& state) {
    if (!state.has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *out = context_of(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  return driver_call(__func__,
                     [=](Runtime& state) { return pointer_attribute(state, out, attribute, address); });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* count, CUfunction, int, std::size_t) {
  return driver_call(__func__, [=](Runtime&) {
    *count = 1;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetAttribute(int*, CUfunction_attribute, CUfunction) {
  return refuse(__func__);
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return refuse(__func__);
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return refuse(__func__);
}
CUresult cuModuleLoad(CUmodule*, const char*) {
  return refuse(__func__);
}
CUresult cuModuleLoadData(CUmodule*, const void*) {
  return refuse(__func__);
}
CUresult cuModuleLoadDataEx(CUmodule*, const void*, unsigned, CUjit_option*, void**) {
  return refuse(__func__);
}
CUresult cuModuleUnload(CUmodule) {
  return refuse(__func__);
}
CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*) {
  return refuse(__func__);
}
CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState*) {
  return refuse(__func__);
}
CUresult cuLinkAddData(CUlinkState, CUjitInputType, void*, std::size_t, const char*, unsigned, CUjit_option*,
                       void**) {
  return refuse(__func__);
}
CUresult cuLinkComplete(CUlinkState, void**, std::size_t*) {
  return refuse(__func__);
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return refuse(__func__);
}
}
