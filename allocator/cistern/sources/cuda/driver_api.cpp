#include "cistern/sources/cuda/driver_api.hpp"

#include <dlfcn.h>

#include <string>

#include "cistern/sources/cuda/driver_functions.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {
namespace {

constexpr const char* kRuntimeLibrary = "libcudart.so.13";
constexpr unsigned int kDriverVersion = 12000;  // of the functions' signatures that we were compiled with

template <class Function>
void set(Function*& function, void* address) {
  function = reinterpret_cast<Function*>(address);
}

/// The driver's function, or nullptr: an old driver, or none.
void* driver_function(const DriverFunctions& functions, const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code =
      functions.cudaGetDriverEntryPointByVersion(name, &address, kDriverVersion, cudaEnableDefault, &found);
  if (code != cudaSuccess) functions.cudaGetLastError();
  return code == cudaSuccess && found == cudaDriverEntryPointSuccess ? address : nullptr;
}

std::string described(const char* name, const char* text, int code) {
  std::string description = name == nullptr ? "unknown error" : name;
  description += " (" + std::to_string(code) + ")";
  if (text != nullptr) description += std::string(": ") + text;
  return description;
}

}  // namespace

DriverError DriverFunctions::error(const char* call, cudaError_t code) const {
  cudaGetLastError();
  return {call, code, described(cudaGetErrorName(code), cudaGetErrorString(code), code)};
}

DriverError DriverFunctions::error(const char* call, CUresult code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  return {call, code, described(name, text, code)};
}

void DriverFunctions::settle(const char* call, cudaError_t code) const {
  if (means_unloading(code)) cudaGetLastError();
  else check(call, code);
}

bool DriverFunctions::granted(const char* call, cudaError_t code) const {
  if (code == cudaSuccess) return true;
  if (code != cudaErrorMemoryAllocation) throw error(call, code);
  cudaGetLastError();
  return false;
}

bool DriverFunctions::granted(const char* call, CUresult code) const {
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY) throw error(call, code);
  return code == CUDA_SUCCESS;
}

Result<DriverApi, DriverError> DriverApi::from_lookup(const Lookup& lookup) {
  auto functions = std::make_shared<DriverFunctions>();
  const char* missing = nullptr;
#define CISTERN_FIND(name)                                            \
  set(functions->name, lookup(#name));                                \
  if (functions->name == nullptr && missing == nullptr) missing = #name;
  CISTERN_RUNTIME_FUNCTIONS(CISTERN_FIND)
#undef CISTERN_FIND
  if (missing != nullptr) return DriverError(missing, 0, "the CUDA runtime has no such function");
#define CISTERN_FIND(name)                                            \
  set(functions->name, driver_function(*functions, #name));           \
  if (functions->name == nullptr && functions->missing_vmm_function == nullptr) functions->missing_vmm_function = #name;
  CISTERN_VMM_FUNCTIONS(CISTERN_FIND)
#undef CISTERN_FIND
  return DriverApi(std::move(functions));
}

Result<DriverApi, DriverError> DriverApi::from_process() {
  // The global scope first: whatever the program itself calls, a preloaded runtime included. Then a runtime that was
  // loaded out of sight, as Python does it. Never a second one beside it.
  void* library = RTLD_DEFAULT;
  if (dlsym(RTLD_DEFAULT, "cudaGetDevice") == nullptr) {  // not cudaGetDeviceCount, which adapters/preload interposes
    library = dlopen(kRuntimeLibrary, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) library = dlopen(kRuntimeLibrary, RTLD_LAZY);
    if (library == nullptr) return DriverError("dlopen", 0, dlerror());
  }
  return from_lookup([library](const char* name) { return dlsym(library, name); });
}

int DriverApi::device_count() const {
  int count = 0;
  functions_->check("cudaGetDeviceCount", functions_->cudaGetDeviceCount(&count));
  return count;
}

DriverApi::Memory DriverApi::memory(int device) const {
  const DeviceGuard guard(*functions_, device);
  const RelaxedCapture relaxed(*functions_);
  Memory memory;
  functions_->check("cudaMemGetInfo", functions_->cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes));
  return memory;
}

std::optional<DriverError> DriverApi::why_no_vmm(int device) const {
  device_count();  // wakes the driver, which the functions below presuppose
  const char* missing = functions_->missing_vmm_function;
  if (missing != nullptr) return DriverError(missing, 0, "the CUDA driver has no such function");
  if (!has_attribute(*functions_, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return DriverError("cuDeviceGetAttribute", CUDA_ERROR_NOT_SUPPORTED,
                       "device " + std::to_string(device) + " does not support virtual memory management");
  }
  return std::nullopt;
}

}  // namespace cistern
