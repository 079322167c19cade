// What tests of the fake runtime itself share: a fresh one for each test, and short ways to make things in
// it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <string>

#include "support/fake_cudart/control.hpp"

namespace cistern::support {

inline constexpr std::size_t kFakeMiB = std::size_t{1} << 20;
inline constexpr std::size_t kFakeGranule = 2 * kFakeMiB;

class FakeCudart : public testing::Test {
 protected:
  void SetUp() override { fakecuda_reset(2, 64 * kFakeMiB); }

  static std::string misuses() { return fakecuda_misuses(); }
  static fakecuda_counts count() {
    fakecuda_counts counts;
    fakecuda_count(&counts);
    return counts;
  }
  static cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
  static unsigned long long id_of(cudaStream_t stream) {
    unsigned long long id = 0;
    EXPECT_EQ(cudaStreamGetId(stream, &id), cudaSuccess);
    return id;
  }
  static char* allocate(std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, bytes), cudaSuccess);
    return static_cast<char*>(pointer);
  }
  static CUmemGenericAllocationHandle create(std::size_t bytes, int device = 0) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  static CUresult let_touch(CUdeviceptr address, std::size_t bytes, int device) {
    CUmemAccessDesc access = {};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return cuMemSetAccess(address, bytes, &access, 1);
  }
  /// A mapped granule that device 0 may touch.
  static CUdeviceptr map_granule(CUmemGenericAllocationHandle handle) {
    const CUdeviceptr address = reserve(kFakeGranule);
    EXPECT_EQ(cuMemMap(address, kFakeGranule, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(let_touch(address, kFakeGranule, 0), CUDA_SUCCESS);
    return address;
  }
  static char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }
};

}  // namespace cistern::support
