// Pinned memory of torch's tensors from cistern, over the fake runtime: blocks are split and joined, and come back only
// when the streams that copy have passed.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "cistern/adapters/c10_host/install.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/memory.hpp"
#include "support/fake_cudart/control.hpp"

namespace cistern {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMebi = 1 << 20;

at::Tensor pinned(std::int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
}
at::Tensor on_device(std::int64_t bytes) { return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA)); }

Options reporting() {
  Options options;
  options.misuse = Misuse::kReport;
  return options;
}

/// An allocator serves a process: what these tests leave in it is nothing.
class Pinned : public ::testing::Test {
 protected:
  void SetUp() override { install_pinned(reporting()); }

  void TearDown() override {
    fakecuda_release_all();
    fakecuda_clear_failures();
    if (CachingAllocator* core = find_device("pinned")) {
      clear_memory_limit("pinned");
      core->audit();
    }
    at::getHostAllocator(at::kCUDA)->empty_cache();
    fakecuda_counts counts;
    fakecuda_count(&counts);
    EXPECT_EQ(counts.host_allocations, 0u) << fakecuda_live_text();
    EXPECT_STREQ(fakecuda_misuses(), "");
  }

  static std::uint64_t pin_calls() { return fakecuda_calls("cudaHostAlloc"); }
};

TEST_F(Pinned, InstallingPinsNothingAndUsesNoDevice) {
  if (find_device("pinned") != nullptr) GTEST_SKIP() << "needs a process of its own; ctest runs each test by itself";
  EXPECT_EQ(pin_calls(), 0u);
  EXPECT_EQ(fakecuda_calls("cudaStreamGetId"), 0u);
  EXPECT_EQ(list_devices("pinned"), std::vector<std::string>{"pinned"});
  EXPECT_EQ(at::getHostAllocator(at::kCUDA)->get_stats().allocated_bytes.current, 0);
}

TEST_F(Pinned, TensorsComeFromCistern) {
  const at::Tensor tensor = pinned(1000);
  EXPECT_TRUE(tensor.is_pinned());
  EXPECT_TRUE(device_allocator("pinned").find(reinterpret_cast<Address>(tensor.data_ptr())).has_value());
  EXPECT_EQ(memory_info("pinned").current_bytes, 1024u);
  EXPECT_EQ(memory_info("pinned").outside_bytes, std::nullopt);
}

TEST_F(Pinned, PinMemoryCopies) {
  const at::Tensor plain = at::full({1000}, 7, at::kByte);
  const at::Tensor copy = plain.pin_memory();
  EXPECT_TRUE(copy.is_pinned());
  EXPECT_FALSE(plain.is_pinned());
  EXPECT_TRUE(copy.equal(plain));
}

TEST_F(Pinned, SizesThatAreNoPowersOfTwoAreNotRoundedToThem) {
  const at::Tensor first = pinned(5 * kMebi);
  const at::Tensor second = pinned(9 * kMebi);
  EXPECT_EQ(memory_info("pinned").current_bytes, 14u << 20);
  EXPECT_EQ(memory_info("pinned").reserved_bytes, 16u << 20) << "native pins 8 and 16 MiB";
}

TEST_F(Pinned, ManySmallTensorsShareOnePinnedSegment) {
  const std::uint64_t before = pin_calls();
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(pinned(1000));
  EXPECT_LE(pin_calls() - before, 2u) << "one that may have to be taken again to be aligned";
  EXPECT_EQ(memory_info("pinned").reserved_bytes, 2u << 20);
}

TEST_F(Pinned, NeighboursJoinToServeALargerTensor) {
  at::Tensor whole = pinned(8 * kMebi);
  const void* place = whole.data_ptr();
  whole.reset();
  std::vector<at::Tensor> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(pinned(2 * kMebi));
  parts.clear();
  const std::uint64_t calls = pin_calls();
  EXPECT_EQ(pinned(8 * kMebi).data_ptr(), place);
  EXPECT_EQ(pin_calls(), calls);
}

TEST_F(Pinned, ABlockComesBackOnlyWhenTheStreamThatCopiesFromItHasPassed) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const at::Tensor target = on_device(4 * kMebi);
  at::Tensor source = pinned(4 * kMebi);
  const void* place = source.data_ptr();
  fakecuda_hold(stream.stream());
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    target.copy_(source, true);
  }
  EXPECT_EQ(fakecuda_pending(stream.stream()), 1u);
  source.reset();
  EXPECT_EQ(device_allocator("pinned").stats().pending_bytes, 4u << 20);
  const at::Tensor meanwhile = pinned(4 * kMebi);
  EXPECT_NE(meanwhile.data_ptr(), place);
  fakecuda_release(stream.stream());
  EXPECT_EQ(pinned(4 * kMebi).data_ptr(), place);
}

TEST_F(Pinned, TheDefaultStreamIsAStreamLikeAnyOther) {
  const at::Tensor target = on_device(4 * kMebi);
  at::Tensor source = pinned(4 * kMebi);
  const void* place = source.data_ptr();
  fakecuda_hold(nullptr);
  target.copy_(source, true);
  source.reset();
  const at::Tensor meanwhile = pinned(4 * kMebi);
  EXPECT_NE(meanwhile.data_ptr(), place);
  fakecuda_release(nullptr);
  EXPECT_EQ(pinned(4 * kMebi).data_ptr(), place);
}

TEST_F(Pinned, AViewOfABlockIsUsedAsTheBlock) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const at::Tensor target = on_device(kMebi);
  at::Tensor source = pinned(4 * kMebi);
  const void* place = source.data_ptr();
  fakecuda_hold(stream.stream());
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    target.copy_(source.slice(0, kMebi, 2 * kMebi), true);
  }
  source.reset();
  EXPECT_NE(pinned(4 * kMebi).data_ptr(), place);
}

TEST_F(Pinned, WhatIsNoBlockOfOursIsNotRecorded) {
  pinned(100);
  int local = 0;
  const c10::Stream stream = c10::cuda::getCurrentCUDAStream().unwrap();
  EXPECT_FALSE(at::getHostAllocator(at::kCUDA)->record_event(&local, &local, stream));
}

TEST_F(Pinned, EmptyCacheUnpinsWhatIsIdle) {
  const at::Tensor kept = pinned(4 * kMebi);
  pinned(16 * kMebi);
  EXPECT_EQ(memory_info("pinned").reserved_bytes, 20u << 20);
  at::getHostAllocator(at::kCUDA)->empty_cache();
  EXPECT_EQ(memory_info("pinned").reserved_bytes, 4u << 20);
  fakecuda_counts counts;
  fakecuda_count(&counts);
  EXPECT_EQ(counts.host_allocations, 1u);
}

TEST_F(Pinned, EmptyCacheWaitsForTheStreamThatStillCopies) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const at::Tensor target = on_device(4 * kMebi);
  at::Tensor source = pinned(4 * kMebi);
  fakecuda_hold(stream.stream());
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    target.copy_(source, true);
  }
  source.reset();
  ASSERT_EQ(fakecuda_pending(stream.stream()), 2u) << "the copy, and the fence behind it";
  at::getHostAllocator(at::kCUDA)->empty_cache();
  EXPECT_EQ(fakecuda_pending(stream.stream()), 0u);
  EXPECT_EQ(memory_info("pinned").reserved_bytes, 0u);
}

TEST_F(Pinned, AChildOfForkLeavesTheParentsMemoryAloneAndPinsNone) {
  at::Tensor tensor = pinned(4 * kMebi);
  const pid_t child = fork();
  if (child == 0) {
    const std::uint64_t before = pin_calls();
    tensor.reset();
    at::getHostAllocator(at::kCUDA)->empty_cache();
    int outcome = memory_info("pinned").current_bytes == 4u << 20 ? 0 : 1;
    try {
      at::getHostAllocator(at::kCUDA)->allocate(100);
      outcome |= 2;
    } catch (const c10::Error&) {
    }
    std::_Exit(pin_calls() == before ? outcome : outcome | 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(memory_info("pinned").current_bytes, 4u << 20);
}

TEST_F(Pinned, ALimitHoldsAndTheErrorNamesIt) {
  set_memory_limit("pinned", "8MiB");
  const at::Tensor kept = pinned(6 * kMebi);
  try {
    pinned(4 * kMebi);
    ADD_FAILURE() << "the limit was passed";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("(pinned): the limit of 8 MiB leaves no room for 4 MiB more"));
  }
  clear_memory_limit("pinned");
  pinned(4 * kMebi);
}

TEST_F(Pinned, AFaultOfTheRuntimeIsATorchErrorThatNamesTheCall) {
  pinned(100);
  fakecuda_fail_call("cudaHostAlloc", 1, 999);
  try {
    pinned(64 * kMebi);
    ADD_FAILURE() << "nothing failed";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudaHostAlloc"));
  }
  pinned(64 * kMebi);
}

TEST_F(Pinned, StatisticsAreTorchs) {
  at::HostAllocator& torchs = *at::getHostAllocator(at::kCUDA);
  const at::Tensor kept = pinned(3 * kMebi);
  torchs.reset_accumulated_stats();
  torchs.reset_peak_stats();
  at::Tensor dropped = pinned(5 * kMebi);
  dropped.reset();
  at::HostStats stats = torchs.get_stats();
  EXPECT_EQ(stats.active_requests.current, 1);
  EXPECT_EQ(stats.active_requests.peak, 2);
  EXPECT_EQ(stats.active_bytes.current, 3 * kMebi);
  EXPECT_EQ(stats.active_bytes.peak, 8 * kMebi);
  EXPECT_EQ(stats.active_bytes.allocated, 5 * kMebi);
  EXPECT_EQ(stats.allocations.current, 2);
  EXPECT_EQ(stats.allocated_bytes.current, 10 * kMebi);
  EXPECT_EQ(stats.num_host_alloc, 1);
  EXPECT_EQ(stats.bucket_allocation[23], 1) << "6 MiB are between 2^22 and 2^23";
  EXPECT_EQ(stats.host_alloc_time.count, 1);
  torchs.empty_cache();
  stats = torchs.get_stats();
  EXPECT_EQ(stats.num_host_free, 1);
  EXPECT_EQ(stats.allocated_bytes.current, 4 * kMebi);
}

TEST_F(Pinned, ATenantHasALimitOfItsOwn) {
  MemoryPool pool("pinned", Amount{4u << 20});
  const ScopedPool scope(pool);
  const at::Tensor kept = pinned(4 * kMebi);
  EXPECT_THROW(pinned(kMebi), c10::OutOfMemoryError);
  EXPECT_EQ(pool.info().current_bytes, 4u << 20);
}

TEST_F(Pinned, WhatAGraphCopiesFromStaysUntilTheGraphIsGone) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  const at::Tensor target = on_device(4 * kMebi);
  pinned(100);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  at::Tensor source = pinned(4 * kMebi);
  const void* place = source.data_ptr();
  target.copy_(source, true);
  source.reset();
  const at::Tensor later = pinned(4 * kMebi);
  EXPECT_NE(later.data_ptr(), place) << "a replay copies from there";
  at::Tensor untouched = pinned(6 * kMebi);
  const void* free_place = untouched.data_ptr();
  untouched.reset();
  EXPECT_EQ(pinned(6 * kMebi).data_ptr(), free_place) << "nothing was copied from there";
  graph.capture_end();
  EXPECT_NE(pinned(4 * kMebi).data_ptr(), place);
  at::getHostAllocator(at::kCUDA)->empty_cache();
  graph.replay();
  graph.reset();
  EXPECT_EQ(memory_info("pinned").current_bytes, 4u << 20) << "what was kept for the graph is free";
}

TEST_F(Pinned, AFreedBlockIsNotFreedAgain) {
  at::HostAllocator& torchs = *at::getHostAllocator(at::kCUDA);
  void* block = torchs.raw_allocate(1000);
  torchs.raw_deallocate(block);
  ::testing::internal::CaptureStderr();
  torchs.raw_deallocate(block);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no live pinned block"));
}

TEST_F(Pinned, InstallingAgainChangesNothing) {
  const at::HostAllocator* before = at::getHostAllocator(at::kCUDA);
  install_pinned();
  EXPECT_EQ(at::getHostAllocator(at::kCUDA), before);
}

/// Tests that install themselves, each in a process of its own.
class PinnedInstallation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_family("pinned") != nullptr) GTEST_SKIP() << "needs a process of its own; ctest runs each test by itself";
  }
};

TEST_F(PinnedInstallation, KeepsWatchOverTensorsThatAreOlder) {
  at::HostAllocator& native = *at::getHostAllocator(at::kCUDA);
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const at::Tensor target = on_device(4 * kMebi);
  at::Tensor older = pinned(4 * kMebi);
  void* place = older.data_ptr();
  install_pinned();
  fakecuda_hold(stream.stream());
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    target.copy_(older, true);
  }
  older.reset();
  const c10::DataPtr again = native.allocate(4 * kMebi);
  EXPECT_NE(again.get(), place) << "native was told that a stream uses it";
  fakecuda_release_all();
}

TEST_F(PinnedInstallation, TakesTensorFlowsLimitFromTheEnvironment) {
  setenv("TF_GPU_HOST_MEM_LIMIT_IN_MB", "64", 1);
  install_pinned();
  EXPECT_EQ(memory_info("pinned").limit_bytes, 64u << 20);
}

TEST_F(PinnedInstallation, RefusesATextWhereTensorFlowsLimitShouldBe) {
  setenv("TF_GPU_HOST_MEM_LIMIT_IN_MB", "plenty", 1);
  EXPECT_THROW(install_pinned(), std::invalid_argument);
  EXPECT_EQ(find_family("pinned"), nullptr);
}

TEST_F(PinnedInstallation, RefusesToPreallocateAllOfTheHost) {
  Options options;
  options.strategy = Strategy::kPreallocate;
  EXPECT_THROW(install_pinned(options), MemoryError);
  options.limit = Amount{8u << 20};
  install_pinned(options);
  pinned(100);
  EXPECT_EQ(memory_info("pinned").reserved_bytes, 8u << 20);
}

TEST_F(PinnedInstallation, KeepsWhatWasSaidBefore) {
  set_memory_limit("pinned", "6MiB");
  install_pinned();
  EXPECT_EQ(memory_info("pinned").limit_bytes, 6u << 20);
}

}  // namespace
}  // namespace cistern
