#include <thread>

#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

using ::testing::HasSubstr;
using C10CudaLimits = CudaPlug;

std::string out_of_memory_text(std::size_t bytes) {
  try {
    cca::raw_delete(cca::raw_alloc(bytes));
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return "served";
}

TEST_F(C10CudaLimits, EmptyCacheGivesEverythingIdleBackToTheDriver) {
  void* kept = cca::raw_alloc(3 * kMiB);
  cca::raw_delete(cca::raw_alloc(64 * kMiB));
  cca::emptyCache();
  EXPECT_LT(fakecuda_used_bytes(0), 8 * kMiB);
  cca::raw_delete(kept);
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
  EXPECT_EQ(reserved_bytes(), 0u);
}

TEST_F(C10CudaLimits, AMemoryFractionIsALimitInBytesOfTheDriver) {
  cca::setMemoryFraction(0.25, 0);
  EXPECT_DOUBLE_EQ(cca::getMemoryFraction(0), 0.25);
  void* data = cca::raw_alloc(60 * kMiB);
  EXPECT_THAT(out_of_memory_text(8 * kMiB), HasSubstr("the limit of 64 MiB leaves no room"));
  EXPECT_LE(fakecuda_used_bytes(0), 64 * kMiB);
  cca::setMemoryFraction(1.0, 0);
  EXPECT_EQ(out_of_memory_text(8 * kMiB), "served");
  cca::raw_delete(data);
}

TEST_F(C10CudaLimits, AFractionBelowWhatIsInUseIsRefusedAndSaysWhatWouldDo) {
  void* data = cca::raw_alloc(100 * kMiB);
  try {
    cca::setMemoryFraction(0.25, 0);
    FAIL() << "accepted";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("a limit of 64 MiB is below what is in use"));
  }
  EXPECT_DOUBLE_EQ(cca::getMemoryFraction(0), 1.0);
  EXPECT_THROW(cca::setMemoryFraction(1.5, 0), c10::ValueError);
  cca::raw_delete(data);
}

TEST_F(C10CudaLimits, LimitsOfTwoDevicesAreTheirOwn) {
  cca::setMemoryFraction(0.25, 0);
  cca::setMemoryFraction(0.5, 1);
  EXPECT_THAT(out_of_memory_text(100 * kMiB), HasSubstr("out of memory on device 0"));
  const c10::cuda::CUDAGuard guard(1);
  EXPECT_EQ(out_of_memory_text(100 * kMiB), "served");
}

TEST_F(C10CudaLimits, MemoryInfoIsTruthfulUnderALimit) {
  const auto [free_before, total_before] = cca::get()->getMemoryInfo(0);
  EXPECT_EQ(free_before, kDeviceBytes);
  EXPECT_EQ(total_before, kDeviceBytes);
  cca::setMemoryFraction(0.25, 0);
  void* data = cca::raw_alloc(16 * kMiB);
  const auto [free_bytes, total_bytes] = cca::get()->getMemoryInfo(0);
  EXPECT_EQ(total_bytes, 64 * kMiB);
  EXPECT_EQ(free_bytes, 48 * kMiB);
  cca::raw_delete(data);
}

TEST_F(C10CudaLimits, CacheInfoIsTheLargestBlockThatCouldBeHad) {
  std::size_t largest = 0;
  cca::cacheInfo(0, &largest);
  EXPECT_EQ(largest, kDeviceBytes);
  cca::setMemoryFraction(0.25, 0);
  largest = 0;
  cca::cacheInfo(0, &largest);
  EXPECT_EQ(largest, 64 * kMiB);
  cca::raw_delete(cca::raw_alloc(48 * kMiB));
  largest = 0;
  cca::cacheInfo(0, &largest);
  EXPECT_EQ(largest, 48 * kMiB) << "the cached block: 16 MiB are left of the limit";
  largest = 5 * kMiB;
  cca::cacheInfo(0, &largest);
  EXPECT_EQ(largest, 48 * kMiB) << "what the caller brings counts as free memory of the device";
}

TEST_F(C10CudaLimits, RunningOutSaysWhatTheDriverSaysToo) {
  void* outside = nullptr;
  ASSERT_EQ(cudaMalloc(&outside, 32 * kMiB), cudaSuccess);
  const std::string text = out_of_memory_text(240 * kMiB);
  EXPECT_THAT(text, HasSubstr("out of memory on device 0 (vmm)"));
  EXPECT_THAT(text, HasSubstr("32 MiB of it not by cistern"));
  EXPECT_EQ(cca::getDeviceStats(0).num_ooms, 1);
  ASSERT_EQ(cudaFree(outside), cudaSuccess);
}

TEST_F(C10CudaLimits, ObserversHearOfItUnderNoLock) {
  std::vector<std::size_t> seen;
  cca::attachOutOfMemoryObserver([&](std::int64_t device, std::size_t bytes, std::size_t total,
                                     std::size_t free_bytes) {
    seen = {static_cast<std::size_t>(device), bytes, total, free_bytes};
    std::thread([] { cca::raw_delete(cca::raw_alloc(kMiB)); cca::emptyCache(); }).join();  // would wait for a lock
  });
  EXPECT_NE(out_of_memory_text(300 * kMiB), "served");
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 300 * kMiB, kDeviceBytes, kDeviceBytes}));
}

void* hoarded = nullptr;
int asked_count = 0;

class GiveUpHoard : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    ++asked_count;
    if (hoarded == nullptr) return false;
    cca::raw_delete(hoarded);
    hoarded = nullptr;
    return true;
  }
};
using c10::FreeCudaMemoryCallbacksRegistry;
using c10::RegistererFreeCudaMemoryCallbacksRegistry;
C10_REGISTER_CLASS(FreeCudaMemoryCallbacksRegistry, give_up_hoard, GiveUpHoard)

TEST_F(C10CudaLimits, WhoHoardsIsAskedOnceBeforeTheAllocationFails) {
  hoarded = cca::raw_alloc(200 * kMiB);
  EXPECT_EQ(out_of_memory_text(100 * kMiB), "served");
  EXPECT_EQ(asked_count, 1);
  EXPECT_NE(out_of_memory_text(300 * kMiB), "served");
  EXPECT_EQ(asked_count, 2);
}

TEST_F(C10CudaLimits, ADriverFaultIsAnErrorThatNamesTheCallAndPasses) {
  fakecuda_fail_call("cuMemMap", 1, 1);
  try {
    cca::raw_delete(cca::raw_alloc(kMiB));
    FAIL() << "served";
  } catch (const c10::OutOfMemoryError&) {
    FAIL() << "a fault is not running out";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("cuMemMap failed"));
  }
  EXPECT_EQ(out_of_memory_text(kMiB), "served");
}

TEST_F(C10CudaLimits, ADriverFaultThatNobodyCouldBeToldOfIsToldToTheNextAllocation) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  fakecuda_hold(side.stream());
  c10::DataPtr data = cca::get()->allocate(3 * kMiB);
  cca::recordStream(data, side);
  data.clear();
  constexpr int illegal_address = 700;
  fakecuda_fail_call("cudaEventQuery", 1, illegal_address);
  cca::raw_delete(cca::raw_alloc(3 * kMiB));  // looks at the fence, and grows
  try {
    cca::raw_alloc(kMiB);
    FAIL() << "served";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("of an earlier call: cudaEventQuery failed"));
  }
  EXPECT_EQ(out_of_memory_text(kMiB), "served");
}

TEST_F(C10CudaLimits, ADeviceThatIsNotThereIsNamed) {
  try {
    cca::setMemoryFraction(0.5, 7);
    FAIL() << "accepted";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("there is no CUDA device 7; there are 2"));
  }
}

TEST_F(C10CudaLimits, StatisticsAreOurs) {
  void* first = cca::raw_alloc(1000);
  void* second = cca::raw_alloc(5 * kMiB);
  cca::raw_delete(first);
  const auto theirs = cca::getDeviceStats(0);
  const Stats ours = cuda_allocator(0).stats();
  const auto expect_same = [](const c10::CachingAllocator::StatArray& array, const Stat& stat) {
    EXPECT_EQ(array[0].current, static_cast<std::int64_t>(stat.current));
    EXPECT_EQ(array[0].peak, static_cast<std::int64_t>(stat.peak));
    EXPECT_EQ(array[0].allocated, static_cast<std::int64_t>(stat.allocated));
    EXPECT_EQ(array[0].freed, static_cast<std::int64_t>(stat.freed));
  };
  expect_same(theirs.allocation, ours.allocations);
  expect_same(theirs.segment, ours.segments);
  expect_same(theirs.active, ours.active_blocks);
  expect_same(theirs.inactive_split, ours.inactive_split_blocks);
  expect_same(theirs.allocated_bytes, ours.allocated);
  expect_same(theirs.reserved_bytes, ours.reserved);
  expect_same(theirs.active_bytes, ours.active);
  expect_same(theirs.inactive_split_bytes, ours.inactive_split);
  expect_same(theirs.requested_bytes, ours.requested);
  const auto small = static_cast<std::size_t>(c10::CachingAllocator::StatType::SMALL_POOL);
  const auto large = static_cast<std::size_t>(c10::CachingAllocator::StatType::LARGE_POOL);
  EXPECT_EQ(theirs.requested_bytes[small].freed, 1000);
  EXPECT_EQ(theirs.requested_bytes[small].peak, 1000);
  EXPECT_EQ(theirs.requested_bytes[large].current, std::int64_t{5 * kMiB});
  EXPECT_EQ(theirs.active[large].current, 1);
  EXPECT_EQ(theirs.num_device_alloc, static_cast<std::int64_t>(ours.source_calls.commit));
  EXPECT_EQ(theirs.max_split_size, -1);
  cca::resetAccumulatedStats(0);
  cca::resetPeakStats(0);
  const auto reset = cca::getDeviceStats(0);
  EXPECT_EQ(reset.num_device_alloc, 0);
  EXPECT_EQ(reset.allocation[0].allocated, 0);
  EXPECT_EQ(reset.allocated_bytes[0].peak, std::int64_t{5 * kMiB});
  cca::raw_delete(second);
}

}  // namespace
}  // namespace cistern::support
