// The table of driver functions: found, missing, and what errors are called.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "cistern/sources/cuda/driver_functions.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

using support::current_device;
using support::fake_api;
using support::kFakeDeviceBytes;

class DriverApiTest : public support::FakeCuda {};

const char* hidden_driver_function = nullptr;

CUresult no_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}

/// As the runtime's, but for one function that an old driver lacks; and a device without any attribute.
cudaError_t entry_point(const char* name, void** address, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* found) {
  if (hidden_driver_function != nullptr && std::strcmp(name, hidden_driver_function) == 0) {
    *found = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  }
  const cudaError_t code = cudaGetDriverEntryPointByVersion(name, address, version, flags, found);
  if (std::strcmp(name, "cuDeviceGetAttribute") == 0) *address = reinterpret_cast<void*>(&no_attribute);
  return code;
}

void* lookup_with_own_entry_point(const char* name) {
  if (std::strcmp(name, "cudaGetDriverEntryPointByVersion") == 0) return reinterpret_cast<void*>(&entry_point);
  return dlsym(RTLD_DEFAULT, name);
}

TEST_F(DriverApiTest, TheRuntimeOfTheProcessIsFoundAndAskedForItsDevices) {
  const DriverApi api = fake_api();
  EXPECT_EQ(api.device_count(), 2);
  EXPECT_EQ(api.memory(1).total_bytes, kFakeDeviceBytes);
  EXPECT_EQ(api.memory(1).free_bytes, kFakeDeviceBytes);
  EXPECT_FALSE(api.why_no_vmm(0));
  EXPECT_EQ(current_device(), 0);
}

TEST_F(DriverApiTest, ARuntimeWithoutAFunctionIsAnErrorThatNamesIt) {
  const auto api = DriverApi::from_lookup([](const char* name) -> void* {
    return std::strcmp(name, "cudaStreamGetId") == 0 ? nullptr : dlsym(RTLD_DEFAULT, name);
  });
  ASSERT_FALSE(api);
  EXPECT_STREQ(api.error().call(), "cudaStreamGetId");
}

TEST_F(DriverApiTest, NoDriverIsAnErrorThatSaysSo) {
  const DriverApi api = fake_api();
  fakecuda_fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  try {
    api.device_count();
    FAIL() << "no error";
  } catch (const DriverError& error) {
    EXPECT_STREQ(error.call(), "cudaGetDeviceCount");
    EXPECT_EQ(error.code(), cudaErrorInsufficientDriver);
    EXPECT_NE(std::string(error.what()).find("cudaGetDeviceCount failed: "), std::string::npos) << error.what();
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(DriverApiTest, ADriverWithoutVirtualMemoryIsNamedFunctionByFunction) {
  hidden_driver_function = "cuMemMap";
  const auto api = DriverApi::from_lookup(&lookup_with_own_entry_point);
  hidden_driver_function = nullptr;
  ASSERT_TRUE(api);
  const auto why = api->why_no_vmm(0);
  ASSERT_TRUE(why);
  EXPECT_STREQ(why->call(), "cuMemMap");
}

TEST_F(DriverApiTest, ADeviceWithoutVirtualMemoryIsNamed) {
  const auto api = DriverApi::from_lookup(&lookup_with_own_entry_point);
  ASSERT_TRUE(api);
  const auto why = api->why_no_vmm(1);
  ASSERT_TRUE(why);
  EXPECT_NE(std::string(why->what()).find("device 1 does not support virtual memory"), std::string::npos);
}

TEST_F(DriverApiTest, AFailureOfTheDriverCarriesTheCallsName) {
  const DriverApi api = fake_api();
  fakecuda_fail_call("cuMemAddressReserve", 1, CUDA_ERROR_INVALID_VALUE);
  try {
    reserve_addresses(api.functions(), 2 * kMiB, 2 * kMiB);
    FAIL() << "no error";
  } catch (const DriverError& error) {
    EXPECT_STREQ(error.call(), "cuMemAddressReserve");
    EXPECT_NE(std::string(error.what()).find(" (1): "), std::string::npos) << error.what();
  }
}

TEST_F(DriverApiTest, ADeviceGuardSetsTheDeviceOnlyIfItMustAndSetsItBack) {
  const DriverApi api = fake_api();
  fakecuda_reset_calls();
  { const DeviceGuard guard(api.functions(), 0); }
  EXPECT_EQ(fakecuda_calls("cudaSetDevice"), 0u);
  {
    const DeviceGuard guard(api.functions(), 1);
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
}

TEST_F(DriverApiTest, AHandleThatTheDriverWillNotTakeBackIsStillOwned) {
  const DriverApi api = fake_api();
  auto space = reserve_addresses(api.functions(), 2 * kMiB, 2 * kMiB);
  ASSERT_TRUE(space);
  fakecuda_fail_call("cuMemAddressFree", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_TRUE(space->release());
  EXPECT_TRUE(*space);
  EXPECT_FALSE(space->release());
  EXPECT_FALSE(*space);
}

TEST_F(DriverApiTest, AnUnloadingDriverHasTakenEverythingBack) {
  const DriverApi api = fake_api();
  auto space = reserve_addresses(api.functions(), 2 * kMiB, 2 * kMiB);
  ASSERT_TRUE(space);
  const Span span = space->get();
  fakecuda_fail_call("cuMemAddressFree", 1, CUDA_ERROR_DEINITIALIZED);
  EXPECT_FALSE(space->release());
  EXPECT_EQ(cuMemAddressFree(span.address, span.bytes), CUDA_SUCCESS);  // the fake has it still
}

TEST_F(DriverApiTest, TheFirstOfSeveralFaultsIsKeptAndAllAreCounted) {
  KeptFaults faults;
  EXPECT_FALSE(faults.take());
  faults.keep(DriverError("cuMemUnmap", 1, "first"));
  faults.keep(DriverError("cuMemRelease", 1, "second"));
  EXPECT_STREQ(faults.take()->call(), "cuMemUnmap");
  EXPECT_FALSE(faults.take());
  EXPECT_EQ(faults.count(), 2u);
}

}  // namespace
}  // namespace cistern
