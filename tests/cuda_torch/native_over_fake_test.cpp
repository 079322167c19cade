// torch's own allocator over the fake runtime: what makes the fake good enough to judge by, and native an
// oracle.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include <string>
#include <vector>

#include "support/fake_cudart/control.hpp"

namespace {

namespace native = c10::cuda::CUDACachingAllocator;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::size_t kDeviceBytes = std::size_t{4} << 30;

/// Each test leaves native's cache empty, and did nothing that a driver would punish.
class NativeOverFake : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::cuda::is_available());
    empty_bytes(1);  // torch initialises itself at the first tensor
    native::emptyCache();
  }

  void TearDown() override {
    fakecuda_release_all();
    fakecuda_clear_failures();
    fakecuda_set_device_bytes(0, kDeviceBytes);
    native::emptyCache();
    EXPECT_EQ(reserved_bytes(), 0);
    EXPECT_EQ(fakecuda_used_bytes(0), 0u) << fakecuda_live_text();
    EXPECT_STREQ(fakecuda_misuses(), "");
  }

  static at::Tensor empty_bytes(std::int64_t bytes, c10::DeviceIndex device = 0) {
    return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA, device));
  }
  static std::int64_t reserved_bytes() { return native::getDeviceStats(0).reserved_bytes[0].current; }
};

TEST_F(NativeOverFake, TorchSeesTheFakeDevices) {
  EXPECT_EQ(torch::cuda::device_count(), 2u);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(total_bytes, kDeviceBytes);
}

TEST_F(NativeOverFake, CopiesInAllDirectionsKeepTheirValues) {
  const at::Tensor sent = at::arange(100'000, at::kLong);
  const at::Tensor first = sent.to(at::Device(at::kCUDA, 0));
  const at::Tensor beside = at::empty_like(first).copy_(first);
  const at::Tensor across = beside.to(at::Device(at::kCUDA, 1));
  EXPECT_TRUE(across.cpu().equal(sent));
  const at::Tensor pinned = at::empty({100'000}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
  ASSERT_TRUE(pinned.is_pinned());
  pinned.copy_(first, /*non_blocking=*/true);
  torch::cuda::synchronize(0);
  EXPECT_TRUE(pinned.equal(sent));
}

TEST_F(NativeOverFake, ABlockThatAHeldStreamUsesIsNotGivenOutBeforeItIsReleased) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  at::Tensor used = empty_bytes(4 * kMiB);
  const void* const address = used.data_ptr();
  fakecuda_hold(side.stream());
  used.record_stream(side);
  fakecuda_touch(side.stream(), address, 4 * kMiB);
  used.reset();
  EXPECT_NE(empty_bytes(4 * kMiB).data_ptr(), address);
  fakecuda_release(side.stream());
  // Native asks its events at the next request, after which the block is free again.
  EXPECT_EQ(fakecuda_pending(side.stream()), 0u);
  const at::Tensor first = empty_bytes(4 * kMiB);
  const at::Tensor second = empty_bytes(4 * kMiB);
  EXPECT_TRUE(first.data_ptr() == address || second.data_ptr() == address);
}

TEST_F(NativeOverFake, OutOfMemoryIsTheTypedErrorAndLaterRequestsSucceed) {
  fakecuda_set_device_bytes(0, 64 * kMiB);
  const at::Tensor kept = empty_bytes(40 * kMiB);
  try {
    empty_bytes(40 * kMiB);
    FAIL() << "40 + 40 MiB cannot fit into 64";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                StartsWith("CUDA out of memory. Tried to allocate 40.00 MiB."));
  }
  EXPECT_NO_THROW(empty_bytes(20 * kMiB));
}

TEST_F(NativeOverFake, AFailedMallocIsRetriedAfterTheCacheWasFlushed) {
  empty_bytes(30 * kMiB);
  ASSERT_EQ(reserved_bytes(), 30 * kMiB);
  const std::int64_t retries_before = native::getDeviceStats(0).num_alloc_retries;
  fakecuda_fail_call("cudaMalloc", 1, cudaErrorMemoryAllocation);
  const at::Tensor larger = empty_bytes(60 * kMiB);
  EXPECT_EQ(reserved_bytes(), 60 * kMiB);
  EXPECT_EQ(native::getDeviceStats(0).num_alloc_retries, retries_before + 1);
}

TEST_F(NativeOverFake, ExpandableSegmentsMapGranulesAndUnmapThemAll) {
  native::setAllocatorSettings("expandable_segments:True");
  const std::uint64_t created_before = fakecuda_calls("cuMemCreate");
  {
    const at::Tensor sent = at::arange(10'000'000, at::kInt);
    const at::Tensor there = sent.to(at::Device(at::kCUDA, 0));
    EXPECT_TRUE(there.cpu().equal(sent));
    fakecuda_counts counts;
    fakecuda_count(&counts);
    EXPECT_GT(counts.mappings, 0u);
    EXPECT_EQ(counts.physical_bytes, static_cast<std::uint64_t>(reserved_bytes()));
  }
  EXPECT_GT(fakecuda_calls("cuMemCreate"), created_before);
  native::emptyCache();
  fakecuda_counts counts;
  fakecuda_count(&counts);
  EXPECT_EQ(counts.mappings, 0u);
  EXPECT_EQ(counts.physical_handles, 0u);
  native::setAllocatorSettings("expandable_segments:False");
}

TEST_F(NativeOverFake, AGraphIsCapturedIntoAPoolOfItsOwnAndReplayed) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  const at::Tensor source = at::arange(1000, at::kLong).to(at::Device(at::kCUDA, 0));
  at::Tensor result;
  {
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    result = at::empty_like(source);
    result.copy_(source);
    graph.capture_end();
    EXPECT_EQ(result.cpu()[999].item<std::int64_t>(), 0) << "captured is not done";
    graph.replay();
    EXPECT_TRUE(result.cpu().equal(source.cpu()));
    bool in_pool = false;
    for (const auto& segment : native::snapshot().segments) {
      in_pool |= segment.owner_private_pool_id == graph.pool();
    }
    EXPECT_TRUE(in_pool);
  }
}

TEST_F(NativeOverFake, AMemPoolKeepsItsSegmentsApart) {
  at::cuda::MemPool pool;
  native::beginAllocateToPool(0, pool.id(), [](cudaStream_t) { return true; });
  at::Tensor inside = empty_bytes(4 * kMiB);
  native::endAllocateToPool(0, pool.id());
  const at::Tensor outside = empty_bytes(4 * kMiB);
  std::vector<c10::MempoolId_t> owners;
  for (const auto& segment : native::snapshot().segments) owners.push_back(segment.owner_private_pool_id);
  EXPECT_THAT(owners, testing::UnorderedElementsAre(pool.id(), c10::MempoolId_t{0, 0}));
  native::releasePool(0, pool.id());
}

}  // namespace
