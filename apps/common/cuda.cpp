#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <filesystem>

#include "apps/common/device.hpp"
#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/adapters/c10_host/install.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/sources/cuda/driver_api.hpp"

namespace cistern::apps {
namespace {

// Where this process has torch from. Loading its CUDA part registers kernels with the part that is there
// already, so another copy, found by the loader's own search, would not do.
std::filesystem::path folder_of_torch() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info);
  return std::filesystem::path(info.dli_fname).parent_path();
}

std::string load_torch_cuda() {
  const std::filesystem::path library = folder_of_torch() / "libtorch_cuda.so";
  if (!std::filesystem::exists(library))
    return "this torch has no CUDA part: " + library.string() + " is not there";
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  return std::string("torch's CUDA part cannot be loaded: ") + dlerror();
}

}  // namespace

// Asks the driver and not torch: torch remembers the answer that it gives before its CUDA part is loaded.
std::string prepare_cuda(int index) {
  const auto driver = DriverApi::from_process();
  if (!driver) return std::string("no usable CUDA device: ") + driver.error().what();
  int count = 0;
  try {
    count = driver->device_count();
  } catch (const DriverError& error) {
    return std::string("no usable CUDA device: ") + error.what();
  }
  if (count == 0) return "no usable CUDA device";
  if (index >= count) {
    return "there " +
           (count == 1 ? std::string("is 1 CUDA device") : "are " + std::to_string(count) + " CUDA devices") +
           ", counted from 0";
  }
  return load_torch_cuda();
}

CudaAllocators install_under_cuda(const Options& options, int index) {
  install_cuda(options);
  install_pinned();
  return {cuda_allocator(index), find_family("pinned")->use("pinned")};
}

}  // namespace cistern::apps
