#include "cistern/sources/cuda/driver_handles.hpp"

#include <unistd.h>

#include "cistern/sources/cuda/driver_functions.hpp"

namespace cistern {
namespace {

/// Nothing if the call succeeded, or if the driver is gone and everything with it.
template <class Code>
std::optional<DriverError> failure_of(const DriverFunctions& functions, const char* call, Code code) {
  if (code == Code{}) return std::nullopt;
  DriverError error = functions.error(call, code);
  if (means_unloading(code)) return std::nullopt;
  return error;
}

}  // namespace

std::optional<DriverError> free_addresses(const DriverFunctions& functions, const Span& span) {
  return failure_of(functions, "cuMemAddressFree", functions.cuMemAddressFree(span.address, span.bytes));
}

std::optional<DriverError> unmap(const DriverFunctions& functions, const Span& span) {
  return failure_of(functions, "cuMemUnmap", functions.cuMemUnmap(span.address, span.bytes));
}

std::optional<DriverError> release_memory(const DriverFunctions& functions, const std::uint64_t& handle) {
  return failure_of(functions, "cuMemRelease", functions.cuMemRelease(handle));
}

std::optional<DriverError> destroy_event(const DriverFunctions& functions, void* const& event) {
  return failure_of(functions, "cudaEventDestroy", functions.cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}

std::optional<DriverError> close_descriptor(const DriverFunctions&, const int& descriptor) {
  close(descriptor);  // an error, too, leaves it closed
  return std::nullopt;
}

std::optional<AddressRange> reserve_addresses(const DriverFunctions& functions, std::size_t bytes,
                                              std::size_t alignment) {
  CUdeviceptr address = 0;
  const CUresult code = functions.cuMemAddressReserve(&address, bytes, alignment, 0, 0);
  if (!functions.granted("cuMemAddressReserve", code)) return std::nullopt;
  return AddressRange(functions, Span{address, bytes});
}

std::optional<Mapping> map(const DriverFunctions& functions, Span span, const PhysicalGranule& memory) {
  const CUresult code = functions.cuMemMap(span.address, span.bytes, 0, memory.get(), 0);
  if (!functions.granted("cuMemMap", code)) return std::nullopt;
  return Mapping(functions, span);
}

DeviceEvent create_event(const DriverFunctions& functions) {
  cudaEvent_t event = nullptr;
  functions.check("cudaEventCreateWithFlags", functions.cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return DeviceEvent(functions, event);
}

bool has_attribute(const DriverFunctions& functions, int device, int attribute) {
  CUdevice handle = 0;
  functions.check("cuDeviceGet", functions.cuDeviceGet(&handle, device));
  int value = 0;
  functions.check("cuDeviceGetAttribute",
                  functions.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), handle));
  return value != 0;
}

DeviceGuard::DeviceGuard(const DriverFunctions& functions, int device) : functions_(functions) {
  functions_.check("cudaGetDevice", functions_.cudaGetDevice(&former_));
  if (former_ == device) return;
  functions_.check("cudaSetDevice", functions_.cudaSetDevice(device));
  changed_ = true;
}

DeviceGuard::~DeviceGuard() {
  if (changed_ && functions_.cudaSetDevice(former_) != cudaSuccess) functions_.cudaGetLastError();
}

RelaxedCapture::RelaxedCapture(const DriverFunctions& functions) noexcept : functions_(functions) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  changed_ = functions_.cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess;
  if (changed_) former_ = mode;
  else functions_.cudaGetLastError();
}

RelaxedCapture::~RelaxedCapture() {
  auto mode = static_cast<cudaStreamCaptureMode>(former_);
  if (changed_ && functions_.cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) functions_.cudaGetLastError();
}

}  // namespace cistern
