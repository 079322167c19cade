// What tests of the CUDA sources share: the fake runtime, fresh for each test, and what it must say at the end.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "cistern/base/units.hpp"
#include "cistern/sources/cuda/driver_api.hpp"
#include "support/fake_cudart/control.hpp"

namespace cistern::support {

inline constexpr std::size_t kFakeDeviceBytes = 256 * kMiB;

inline fakecuda_counts count_fakes() {
  fakecuda_counts counts;
  fakecuda_count(&counts);
  return counts;
}

inline DriverApi fake_api() {
  auto api = DriverApi::from_process();
  EXPECT_TRUE(api) << api.error().what();
  return *api;
}

inline cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return stream;
}

inline int current_device() {
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

/// Two devices; at the end nothing of the driver is left, and nothing was done that a driver would punish.
class FakeCuda : public ::testing::Test {
 protected:
  FakeCuda() { fakecuda_reset(2, kFakeDeviceBytes); }

  void TearDown() override {
    fakecuda_clear_failures();
    EXPECT_STREQ(fakecuda_misuses(), "");
    const fakecuda_counts left = count_fakes();
    EXPECT_EQ(left.device_allocations + left.host_allocations + left.physical_handles + left.mappings +
                  left.address_ranges + left.events,
              0u)
        << fakecuda_live_text();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error left for somebody else";
  }
};

}  // namespace cistern::support
