// The CUDA devices of whichever adapter serves them, under their names "cuda:0", "cuda:1", ...
#pragma once

#include <string>

#include "cistern/adapters/cuda_devices.hpp"

namespace cistern {

/// Tells cistern/memory.hpp of all devices that there are; uses none. Requires that they live as long as the process.
/// Fails as register_family.
void register_cuda_family(CudaDevices& devices);

/// Names the device, applies what was said of it before, and begins the trace FILE.cuda:N if `record`, a FILE, is not
/// empty. For the callback of CudaDevices: no two devices at once. Fails as register_device, and with FileError.
void register_cuda_device(CudaDevice& device, const std::string& record);

}  // namespace cistern
