// Growth, limits and figures of CUDA devices by their names, under torch's tensors: TensorFlow's behaviours, and what
// its users were refused. Over the fake runtime, where what the driver sees can be asked.
#include "cistern/memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/adapters/registry.hpp"
#include "support/fake_cudart/control.hpp"

namespace cistern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMebi = 1 << 20;
constexpr std::size_t kDeviceBytes = 256 * kMiB;

at::Tensor tensor(std::int64_t mebibytes, c10::DeviceIndex device = 0) {
  return at::empty({mebibytes * kMebi}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA, device));
}

/// Each test wants devices that nobody used yet, so a process of its own.
class CudaMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_family("cuda") != nullptr) GTEST_SKIP() << "needs a process of its own; ctest runs each test by itself";
    for (int device : {0, 1}) fakecuda_set_device_bytes(device, kDeviceBytes);
  }
  void TearDown() override {
    EXPECT_STREQ(fakecuda_misuses(), "");
    for (const auto& [name, allocator] : registered_devices()) allocator->audit();
  }
};

TEST_F(CudaMemory, DevicesAreListedAndSetWithoutBeingUsed) {
  install_cuda();
  EXPECT_THAT(list_devices("cuda"), ElementsAre("cuda:0", "cuda:1"));
  for (const std::string& device : list_devices("cuda")) set_memory_growth(device, true);
  set_memory_limit("cuda:0", "50%");
  EXPECT_TRUE(registered_devices().empty());
  EXPECT_EQ(fakecuda_calls("cudaMemGetInfo"), 0u);
  EXPECT_EQ(fakecuda_calls("cudaStreamGetId"), 0u);
}

// testGpuGrowth, testGpuMultiple, testVirtualGpu; TF's ForceAllowGrowth
TEST_F(CudaMemory, GrowthAndLimitsDifferBetweenDevices) {
  install_cuda();
  set_memory_growth("cuda:0", true);
  set_memory_limit("cuda:0", "64MiB");
  set_memory_growth("cuda:1", false);
  set_memory_limit("cuda:1", "32MiB");
  const at::Tensor first = tensor(3, 0);
  const at::Tensor second = tensor(3, 1);
  EXPECT_EQ(fakecuda_used_bytes(0), 4 * kMiB);
  EXPECT_EQ(fakecuda_used_bytes(1), 32 * kMiB);
  EXPECT_THROW(tensor(62, 0), c10::OutOfMemoryError);
  EXPECT_THROW(tensor(30, 1), c10::OutOfMemoryError);
}

TEST_F(CudaMemory, SettingsMadeBeforeInstallingAreKept) {
  set_memory_limit("cuda:1", "32MiB");
  install_cuda();
  EXPECT_EQ(memory_info("cuda:1").limit_bytes, 32 * kMiB);
  EXPECT_EQ(memory_info("cuda:0").limit_bytes, std::nullopt);
}

TEST_F(CudaMemory, ASettingForADeviceThatIsNotThereIsToldByInstalling) {
  set_memory_growth("cuda:7", true);
  try {
    install_cuda();
    ADD_FAILURE() << "installed";
  } catch (const MemoryError& error) {
    EXPECT_EQ(error.reason(), MemoryError::Reason::kUnknownDevice);
    EXPECT_THAT(error.what(), HasSubstr("cuda:7"));
  }
  EXPECT_EQ(c10::cuda::CUDACachingAllocator::get()->name(), "native");
}

// "Physical devices cannot be modified after being initialized"
TEST_F(CudaMemory, SettingsChangeAfterTheFirstTensor) {
  install_cuda();
  const at::Tensor first = tensor(3);
  set_memory_limit("cuda:0", "64MiB");
  set_memory_growth("cuda:0", false);
  const at::Tensor second = tensor(3);
  EXPECT_EQ(fakecuda_used_bytes(0), 64 * kMiB);
  set_memory_growth("cuda:0", true);
  EXPECT_EQ(trim("cuda:0"), 58 * kMiB);
  EXPECT_EQ(fakecuda_used_bytes(0), 6 * kMiB) << "the driver has it back";
  try {
    set_memory_limit("cuda:0", "4MiB");
    ADD_FAILURE() << "below what is in use";
  } catch (const MemoryError& error) {
    EXPECT_EQ(error.reason(), MemoryError::Reason::kInUse);
    EXPECT_THAT(error.what(), HasSubstr("the least limit possible now is 6 MiB"));
  }
}

// InvalidGpuId "100", testGetMemoryInfoUnknownDevice
TEST_F(CudaMemory, ADeviceThatIsNotThereIsNamedWithThoseThatAre) {
  install_cuda();
  try {
    memory_info("cuda:2");
    ADD_FAILURE() << "there is none";
  } catch (const MemoryError& error) {
    EXPECT_EQ(error.reason(), MemoryError::Reason::kUnknownDevice);
    EXPECT_THAT(error.what(), HasSubstr("there are cuda:0, cuda:1"));
  }
  EXPECT_THROW(cuda_allocator(2), std::out_of_range);
}

TEST_F(CudaMemory, ALimitAboveTheDeviceIsRefusedByTheFirstTensorAndCanBeMended) {
  install_cuda();
  set_memory_limit("cuda:0", "1GiB");
  try {
    tensor(1);
    ADD_FAILURE() << "the device has 256 MiB";
  } catch (const MemoryError& error) {
    EXPECT_EQ(error.reason(), MemoryError::Reason::kAboveCapacity);
    EXPECT_THAT(error.what(), HasSubstr("1 GiB is more than the device has (256 MiB)"));
  }
  set_memory_limit("cuda:0", "100%");
  tensor(1);
}

// testGetMemoryInfoBasic; #22158: nvidia-smi shows more than the limit
TEST_F(CudaMemory, FiguresTellWhatOthersTook) {
  void* others = nullptr;
  ASSERT_EQ(cudaMalloc(&others, 32 * kMiB), cudaSuccess);
  install_cuda();
  EXPECT_EQ(memory_info("cuda:0").current_bytes, 0u);
  EXPECT_EQ(memory_info("cuda:0").outside_bytes, 32 * kMiB);
  const at::Tensor kept = tensor(4);
  tensor(8);
  const MemoryInfo info = memory_info("cuda:0");
  EXPECT_EQ(info.current_bytes, 4 * kMiB);
  EXPECT_EQ(info.peak_bytes, 12 * kMiB);
  EXPECT_EQ(info.reserved_bytes, 12 * kMiB);
  EXPECT_EQ(info.largest_free_bytes, 8 * kMiB);
  EXPECT_EQ(info.capacity_bytes, kDeviceBytes);
  EXPECT_EQ(info.outside_bytes, 32 * kMiB);
  reset_peak("cuda:0");
  EXPECT_EQ(memory_info("cuda:0").peak_bytes, 4 * kMiB);
  ASSERT_EQ(cudaFree(others), cudaSuccess);
}

TEST_F(CudaMemory, PreallocationLeavesTheHeadroom) {
  install_cuda();
  set_headroom("cuda:0", 56 * kMiB);
  set_memory_growth("cuda:0", false);
  tensor(1);
  EXPECT_EQ(fakecuda_used_bytes(0), 200 * kMiB);
}

// MultipleVirtualDevices: two tenants on one card
TEST_F(CudaMemory, TenantsKeepTheirLimits) {
  install_cuda();
  MemoryPool first("cuda:0", Amount{64 * kMiB});
  MemoryPool second("cuda:0", Amount{32 * kMiB});
  std::vector<at::Tensor> kept;
  {
    const ScopedPool scope(first);
    kept.push_back(tensor(40));
    EXPECT_THROW(tensor(30), c10::OutOfMemoryError);
    kept.push_back(tensor(3, 1));
    std::thread([&] { EXPECT_NO_THROW(tensor(30)); }).join();
  }
  {
    const ScopedPool scope(second);
    kept.push_back(tensor(20));
    EXPECT_THROW(tensor(20), c10::OutOfMemoryError);
  }
  kept.push_back(tensor(100));
  EXPECT_EQ(first.info().current_bytes, 40 * kMiB);
  EXPECT_EQ(second.info().current_bytes, 20 * kMiB);
  EXPECT_EQ(memory_info("cuda:0").current_bytes, 160 * kMiB);
  kept.clear();
  EXPECT_EQ(first.info().reserved_bytes, 40 * kMiB) << "idle memory of a tenant waits for it";
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u) << "and goes back like any other";
}

}  // namespace
}  // namespace cistern
