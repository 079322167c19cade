#include <thread>

#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

using C10CudaAllocate = CudaPlug;

TEST_F(C10CudaAllocate, ABlockComesFromCisternAndGoesBack) {
  EXPECT_EQ(c10::GetAllocator(c10::kCUDA), cca::get());
  EXPECT_EQ(cca::name(), "cistern");
  c10::DataPtr data = cca::get()->allocate(1000);
  EXPECT_EQ(data.device(), c10::Device(c10::kCUDA, 0));
  EXPECT_TRUE(cuda_allocator(0).find(reinterpret_cast<Address>(data.get())));
  EXPECT_EQ(allocated_bytes(), 1024);
  EXPECT_EQ(aggregate(cca::getDeviceStats(0).requested_bytes), 1000);
  data.clear();
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_GT(fakecuda_used_bytes(0), 0u) << "what was freed stays cached";
}

TEST_F(C10CudaAllocate, ZeroBytesAreNothingOnTheCurrentDevice) {
  const c10::cuda::CUDAGuard guard(1);
  const c10::DataPtr data = cca::get()->allocate(0);
  EXPECT_EQ(data.get(), nullptr);
  EXPECT_EQ(data.device(), c10::Device(c10::kCUDA, 1));
  EXPECT_EQ(cca::raw_alloc(0), nullptr);
  cca::raw_delete(nullptr);
}

TEST_F(C10CudaAllocate, OnlyDevicesThatAreUsedGetAContext) {
  cca::raw_delete(cca::raw_alloc(1));
  EXPECT_GT(fakecuda_used_bytes(0), 0u);
  EXPECT_EQ(fakecuda_used_bytes(1), 0u);
  EXPECT_EQ(reserved_bytes(1), 0u);
}

TEST_F(C10CudaAllocate, TheRawDeleterIsTheOneThatAllocateAttaches) {
  const c10::DataPtr data = cca::get()->allocate(512);
  EXPECT_EQ(data.get_deleter(), cca::get()->raw_deleter());
  void* raw = cca::get()->raw_allocate(512);
  EXPECT_EQ(allocated_bytes(), 1024);
  cca::get()->raw_deallocate(raw);
  EXPECT_EQ(allocated_bytes(), 512);
}

TEST_F(C10CudaAllocate, AFreeNeedsNeitherTheDeviceNorTheThreadOfItsBlock) {
  void* on_zero = cca::raw_alloc(kMiB);
  void* on_one = nullptr;
  {
    const c10::cuda::CUDAGuard guard(1);
    on_one = cca::raw_alloc(kMiB);
    cca::raw_delete(on_zero);
  }
  EXPECT_EQ(allocated_bytes(0), 0);
  EXPECT_EQ(allocated_bytes(1), std::int64_t{kMiB});
  std::thread([&] { cca::raw_delete(on_one); }).join();
  EXPECT_EQ(allocated_bytes(1), 0);
}

TEST_F(C10CudaAllocate, CloneCopiesOnTheDevice) {
  c10::DataPtr data = cca::get()->allocate(4);
  const int value = 42;
  ASSERT_EQ(cudaMemcpy(data.get(), &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
  const c10::DataPtr copy = cca::get()->clone(data.get(), sizeof value);
  int read = 0;
  ASSERT_EQ(cudaMemcpy(&read, copy.get(), sizeof read, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(read, value);
}

TEST_F(C10CudaAllocate, WithTheCacheOffWhatIsFreedGoesBackToTheDriver) {
  cca::enable(false);
  EXPECT_FALSE(cca::isEnabled());
  cca::raw_delete(cca::raw_alloc(kMiB));
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
  cca::enable(true);
  cca::raw_delete(cca::raw_alloc(kMiB));
  EXPECT_GT(fakecuda_used_bytes(0), 0u);
}

// --- streams
// ----------------------------------------------------------------------------------------------------------

TEST_F(C10CudaAllocate, AStreamReusesItsOwnBlockAtOnceAndNoOthers) {
  const c10::cuda::CUDAStream first = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStream second = c10::cuda::getStreamFromPool();
  const auto take_and_give = [](const c10::cuda::CUDAStream& stream) {
    const c10::cuda::CUDAStreamGuard guard(stream);
    void* data = cca::raw_alloc(3 * kMiB);
    cca::raw_delete(data);
    return data;
  };
  void* mine = take_and_give(first);
  EXPECT_NE(take_and_give(second), mine);
  EXPECT_EQ(take_and_give(first), mine);
}

TEST_F(C10CudaAllocate, ABlockThatAnotherStreamUsesWaitsForIt) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  fakecuda_hold(side.stream());
  c10::DataPtr data = cca::get()->allocate(3 * kMiB);
  void* address = data.get();
  fakecuda_touch(side.stream(), address, kMiB);
  cca::recordStream(data, side);
  data.clear();
  const auto stats = cca::getDeviceStats(0);
  EXPECT_EQ(aggregate(stats.allocated_bytes), 0);
  EXPECT_EQ(aggregate(stats.active_bytes), std::int64_t{3 * kMiB});
  void* meanwhile = cca::raw_alloc(3 * kMiB);
  EXPECT_NE(meanwhile, address);
  fakecuda_release(side.stream());
  void* after = cca::raw_alloc(3 * kMiB);
  EXPECT_EQ(after, address);
  cca::raw_delete(meanwhile);
  cca::raw_delete(after);
}

TEST_F(C10CudaAllocate, AStreamOfAnotherDeviceCanUseTheBlock) {
  const c10::cuda::CUDAStream peer = c10::cuda::getStreamFromPool(false, 1);
  fakecuda_hold(peer.stream());
  c10::DataPtr data = cca::get()->allocate(3 * kMiB);
  void* address = data.get();
  cca::recordStream(data, peer);
  data.clear();
  void* meanwhile = cca::raw_alloc(3 * kMiB);
  EXPECT_NE(meanwhile, address);
  fakecuda_release(peer.stream());
  void* after = cca::raw_alloc(3 * kMiB);
  EXPECT_EQ(after, address);
  cca::raw_delete(meanwhile);
  cca::raw_delete(after);
}

TEST_F(C10CudaAllocate, RecordStreamLeavesNothingAndMemoryOfOthersAlone) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  cca::recordStream(c10::DataPtr(), side);
  int elsewhere = 0;
  cca::recordStream(c10::DataPtr(&elsewhere, &elsewhere, [](void*) {}, c10::Device(c10::kCUDA, 0)), side);
}

TEST_F(C10CudaAllocate, AStreamWithAReusedHandleIsAnotherStream) {
  cudaStream_t first = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  void* old = cca::raw_alloc_with_stream(3 * kMiB, first);
  cca::raw_delete(old);
  ASSERT_EQ(cudaStreamDestroy(first), cudaSuccess);
  cudaStream_t second = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(second, first) << "the fake gives handles out again";
  void* data = cca::raw_alloc_with_stream(3 * kMiB, second);
  EXPECT_NE(data, old);
  cca::raw_delete(data);
  ASSERT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST_F(C10CudaAllocate, TheDefaultStreamIsOneByAllItsNames) {
  void* data = cca::raw_alloc(3 * kMiB);
  cca::raw_delete(data);
  for (cudaStream_t stream : {cudaStream_t{nullptr}, cudaStreamLegacy}) {
    void* again = cca::raw_alloc_with_stream(3 * kMiB, stream);
    EXPECT_EQ(again, data);
    cca::raw_delete(again);
  }
}

TEST_F(C10CudaAllocate, TheDriverIsNotAskedWhichStreamItIsOnAHit) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  cca::raw_delete(cca::raw_alloc(kMiB));
  fakecuda_reset_calls();
  for (int i = 0; i < 100; ++i) cca::raw_delete(cca::raw_alloc(kMiB));
  EXPECT_EQ(fakecuda_calls("*"), fakecuda_calls("cudaGetDevice"));
}

}  // namespace
}  // namespace cistern::support
