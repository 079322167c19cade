// What tests of the CUDA plug share: the plug under libc10_cuda over the fake runtime, without the rest of torch.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/base/units.hpp"
#include "support/fake_cudart/control.hpp"

// libtorch_cuda says this to libc10_cuda when it is loaded; no header declares it.
namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*)(c10::DeviceIndex));
}

namespace cistern::support {

namespace cca = c10::cuda::CUDACachingAllocator;

inline constexpr std::size_t kDeviceBytes = 256 * kMiB;

/// An allocator serves a process, so each test runs in a process of its own, as ctest does it; tests with other options
/// in one process are skipped.
class CudaPlug : public ::testing::Test {
 protected:
  explicit CudaPlug(const Options& options = options_for_tests()) {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    for (int device : {0, 1}) fakecuda_set_device_bytes(device, kDeviceBytes);
    try {
      install_cuda(options);
    } catch (const InstallError& error) {
      if (error.reason() != InstallError::Reason::kInstalledOtherwise) throw;
      skipped_ = true;
      return;
    }
    cca::init(2);
  }

  void SetUp() override {
    if (skipped_) GTEST_SKIP() << "another test of this process chose other options; ctest runs each by itself";
  }

  void TearDown() override {
    if (skipped_) return;
    fakecuda_release_all();
    fakecuda_clear_failures();
    EXPECT_STREQ(fakecuda_misuses(), "");
    for (int device : {0, 1}) cuda_allocator(device).audit();
  }

  static Options options_for_tests() {
    Options options;
    options.misuse = Misuse::kReport;
    return options;
  }

  static cca::CUDAAllocator& torch_allocator() { return *cca::get(); }
  static std::int64_t aggregate(const c10::CachingAllocator::StatArray& stat) { return stat[0].current; }
  static std::int64_t allocated_bytes(c10::DeviceIndex device = 0) {
    return aggregate(cca::getDeviceStats(device).allocated_bytes);
  }
  static std::size_t reserved_bytes(c10::DeviceIndex device = 0) {
    return static_cast<std::size_t>(aggregate(cca::getDeviceStats(device).reserved_bytes));
  }

 private:
  bool skipped_ = false;
};

}  // namespace cistern::support
