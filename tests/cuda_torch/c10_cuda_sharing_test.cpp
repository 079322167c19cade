#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

using ::testing::HasSubstr;
using C10CudaSharing = CudaPlug;

class C10CudaSharingMalloc : public CudaPlug {
 protected:
  static Options with_malloc() {
    Options options = options_for_tests();
    options.source = SourceChoice::kMalloc;
    return options;
  }
  C10CudaSharingMalloc() : CudaPlug(with_malloc()) {}
};

void write(void* data, int value) {
  ASSERT_EQ(cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
}

int read(const void* data) {
  int value = 0;
  EXPECT_EQ(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

TEST_F(C10CudaSharing, ABlockIsTheSameMemoryThroughItsHandle) {
  void* before = cca::raw_alloc(kMiB + 512);
  void* data = cca::raw_alloc(5 * kMiB);
  write(data, 42);
  const cca::ShareableHandle handle = cca::shareIpcHandle(data);
  {
    const std::shared_ptr<void> base = cca::getIpcDevPtr(handle.handle);
    char* there = static_cast<char*>(base.get()) + handle.offset;
    EXPECT_NE(there, data);
    EXPECT_EQ(read(there), 42);
    write(there, 43);
    EXPECT_EQ(read(data), 43);
  }
  cca::raw_delete(data);
  cca::raw_delete(before);
}

TEST_F(C10CudaSharing, SharedGranulesGoBackOnceTheBlockIsFreed) {
  void* data = cca::raw_alloc(5 * kMiB);
  const cca::ShareableHandle first = cca::shareIpcHandle(data);
  const cca::ShareableHandle second = cca::shareIpcHandle(data);
  EXPECT_EQ(first.handle, second.handle) << "shared once";
  cca::emptyCache();
  cca::raw_delete(data);
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

TEST_F(C10CudaSharing, WhatIsNoLiveBlockOrNoHandleIsRefused) {
  int host = 0;
  EXPECT_THROW(cca::shareIpcHandle(&host), c10::Error);
  EXPECT_THROW(cca::getIpcDevPtr("a handle of torch's own"), c10::Error);
  EXPECT_THROW(cca::getIpcDevPtr("?"), c10::Error);
}

TEST_F(C10CudaSharing, TheBaseOfABlockIsWhatTheDriverCouldExportNotTheRange) {
  cca::raw_delete(cca::raw_alloc(20 * kMiB));
  void* data = cca::raw_alloc(5 * kMiB);
  std::size_t bytes = 0;
  char* base = static_cast<char*>(cca::get()->getBaseAllocation(data, &bytes));
  EXPECT_LE(base, static_cast<char*>(data));
  EXPECT_GE(base + bytes, static_cast<char*>(data) + 5 * kMiB);
  EXPECT_LE(bytes, 8 * kMiB);
  cca::raw_delete(data);
}

TEST_F(C10CudaSharing, PeersReachWhatIsThereAndWhatComesLater) {
  void* early = cca::raw_alloc(kMiB);
  cca::get()->enablePeerAccess(1, 0);
  cca::get()->enablePeerAccess(1, 0);
  void* late = cca::raw_alloc(20 * kMiB);
  const c10::cuda::CUDAGuard guard(1);
  void* peer = cca::raw_alloc(20 * kMiB);
  for (void* data : {early, late}) {
    write(data, 7);
    EXPECT_EQ(cca::get()->memcpyAsync(peer, 1, data, 0, sizeof(int), c10::cuda::getCurrentCUDAStream(), true),
              cudaSuccess);
    EXPECT_EQ(read(peer), 7);
    cca::raw_delete(data);
  }
  cca::raw_delete(peer);
}

TEST_F(C10CudaSharing, WithoutPeerAccessCopiesBetweenDevicesUseThePeerCall) {
  void* here = cca::raw_alloc(kMiB);
  write(here, 9);
  const c10::cuda::CUDAGuard guard(1);
  void* there = cca::raw_alloc(kMiB);
  EXPECT_EQ(cca::get()->memcpyAsync(there, 1, here, 0, sizeof(int), c10::cuda::getCurrentCUDAStream(), false),
            cudaSuccess);
  EXPECT_EQ(fakecuda_calls("cudaMemcpyPeerAsync"), 1u);
  EXPECT_EQ(read(there), 9);
  cca::raw_delete(here);
  cca::raw_delete(there);
}

TEST_F(C10CudaSharingMalloc, SegmentsOfMallocAreSharedByTheRuntimesHandle) {
  void* before = cca::raw_alloc(3 * kMiB);
  void* data = cca::raw_alloc(kMiB);
  std::size_t bytes = 0;
  char* base = static_cast<char*>(cca::get()->getBaseAllocation(data, &bytes));
  EXPECT_LE(base, static_cast<char*>(data));
  EXPECT_GE(base + bytes, static_cast<char*>(data) + kMiB);
  const cca::ShareableHandle handle = cca::shareIpcHandle(data);
  EXPECT_EQ(handle.offset, static_cast<char*>(data) - base);
  EXPECT_EQ(fakecuda_calls("cudaIpcGetMemHandle"), 1u);
  cca::raw_delete(data);
  cca::raw_delete(before);
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

}  // namespace
}  // namespace cistern::support
