#include <unordered_set>

#include "cistern/adapters/c10_cuda/torch_minor.hpp"
#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

using ::testing::HasSubstr;
constexpr c10::MempoolId_t kPool{0, 7};
constexpr c10::MempoolId_t kOther{0, 8};

class C10CudaPools : public CudaPlug {
 protected:
  static std::function<bool(cudaStream_t)> everybody() {
    return [](cudaStream_t) { return true; };
  }
  /// Allocates with requests of all streams routed to the pool.
  static void* take_in(c10::MempoolId_t pool, std::size_t bytes) {
    cca::beginAllocateToPool(0, pool, everybody());
    void* data = cca::raw_alloc(bytes);
    cca::endAllocateToPool(0, pool);
    cca::releasePool(0, pool);
    return data;
  }
  static std::size_t pool_bytes(c10::MempoolId_t pool) {
    std::size_t bytes = 0;
    const auto segments = cca::snapshot(pool, false).segments;
    for (const auto& segment : segments) bytes += segment.total_size;
    return bytes;
  }
};

TEST_F(C10CudaPools, RequestsThatPassTheFilterGoToThePoolAndNoOthers) {
  const c10::cuda::CUDAStream inside = c10::cuda::getStreamFromPool();
  cca::createOrIncrefPool(0, kPool);
  cca::beginAllocateToPool(0, kPool, [&](cudaStream_t stream) { return stream == inside.stream(); });
  void* outside_data = cca::raw_alloc(kMiB);
  EXPECT_EQ(pool_bytes(kPool), 0u);
  void* inside_data = nullptr;
  {
    const c10::cuda::CUDAStreamGuard guard(inside);
    inside_data = cca::raw_alloc(kMiB);
  }
  EXPECT_GT(pool_bytes(kPool), 0u);
  cca::endAllocateToPool(0, kPool);
  {
    const c10::cuda::CUDAStreamGuard guard(inside);
    void* afterwards = cca::raw_alloc(kMiB);
    EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, kPool, {inside_data}));
    EXPECT_FALSE(cca::get()->checkPoolLiveAllocations(0, kPool, {inside_data, afterwards}));
    EXPECT_FALSE(cca::get()->checkPoolLiveAllocations(0, kPool, {}));
    cca::raw_delete(afterwards);
  }
  cca::raw_delete(inside_data);
  cca::raw_delete(outside_data);
}

TEST_F(C10CudaPools, OfSeveralPoolsTheLatestBegunServes) {
  cca::beginAllocateToPool(0, kPool, everybody());
  cca::beginAllocateToPool(0, kOther, everybody());
  void* second = cca::raw_alloc(kMiB);
  cca::endAllocateToPool(0, kOther);
  void* first = cca::raw_alloc(kMiB);
  cca::endAllocateToPool(0, kPool);
  EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, kOther, {second}));
  EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, kPool, {first}));
  cca::raw_delete(first);
  cca::raw_delete(second);
}

TEST_F(C10CudaPools, APoolInUseKeepsItsMemoryAndAnUnusedOneGivesItBack) {
  cca::createOrIncrefPool(0, kPool);
  void* data = take_in(kPool, 8 * kMiB);
  EXPECT_EQ(cca::getPoolUseCount(0, kPool), 1);
  cca::raw_delete(data);
  cca::emptyCache();
  cca::emptyCache(kPool);
  EXPECT_GE(fakecuda_used_bytes(0), 8 * kMiB) << "a graph may write there at its next replay";
  cca::releasePool(0, kPool);
  EXPECT_EQ(cca::getPoolUseCount(0, kPool), 0);
  cca::emptyCache(kPool);
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

TEST_F(C10CudaPools, MemoryOfAnUnusedPoolServesTheRestBeforeItFails) {
  cca::createOrIncrefPool(0, kPool);
  cca::raw_delete(take_in(kPool, 200 * kMiB));
  EXPECT_THROW(cca::raw_alloc(100 * kMiB), c10::OutOfMemoryError);
  cca::releasePool(0, kPool);
  cca::raw_delete(cca::raw_alloc(100 * kMiB));
}

TEST_F(C10CudaPools, BlocksOutliveTheirPool) {
  cca::createOrIncrefPool(0, kPool);
  void* data = take_in(kPool, 8 * kMiB);
  cca::releasePool(0, kPool);
  cca::emptyCache(kPool);
  EXPECT_EQ(allocated_bytes(), std::int64_t{8 * kMiB});
  cca::raw_delete(data);
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

TEST_F(C10CudaPools, APoolUsedAgainBeforeItIsEmptiedIsTheSamePool) {
  void* data = take_in(kPool, 8 * kMiB);
  cca::raw_delete(data);
  void* again = take_in(kPool, 8 * kMiB);
  EXPECT_EQ(again, data);
  cca::raw_delete(again);
}

TEST_F(C10CudaPools, MorePoolsThanThereAreNumbersComeAndGo) {
  for (unsigned long long id = 1; id <= 600; ++id) cca::raw_delete(take_in({0, id}, 512));
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

TEST_F(C10CudaPools, TheCallsOfADyingMemPoolHarmNobodyEvenForAPoolThatNeverWas) {
  cca::setUseOnOOM(0, kOther, false);
  cca::emptyCache(kOther);
  cca::releasePool(0, kOther);
  EXPECT_EQ(cca::getPoolUseCount(0, kOther), 0);
}

TEST_F(C10CudaPools, AnEndWithoutABeginIsAnErrorAndABeginAfterAFailedCaptureWorks) {
  EXPECT_THROW(cca::endAllocateToPool(0, kPool), c10::Error);
  cca::beginAllocateToPool(0, kPool, [](cudaStream_t) { return false; });  // its capture failed: nobody ends it
  void* data = take_in(kPool, kMiB);
  EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, kPool, {data}));
  cca::releasePool(0, kPool);
  cca::raw_delete(data);
  void* normal = cca::raw_alloc(kMiB);
  EXPECT_EQ(pool_bytes(kOther), 0u);
  cca::raw_delete(normal);
}

TEST_F(C10CudaPools, APoolThatOffersItsMemoryIsUsedBeforeTheRestFails) {
  cca::createOrIncrefPool(0, kPool);
  cca::raw_delete(take_in(kPool, 200 * kMiB));
  EXPECT_THROW(cca::raw_alloc(100 * kMiB), c10::OutOfMemoryError);
  cca::setUseOnOOM(0, kPool, true);
  void* data = cca::raw_alloc(100 * kMiB);
  EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, kPool, {data}));
  cca::raw_delete(data);
  cca::setUseOnOOM(0, kPool, false);
  EXPECT_THROW(cca::raw_alloc(100 * kMiB), c10::OutOfMemoryError);
}

TEST_F(C10CudaPools, APoolThatDoesNotSplitGivesEachBlockItsOwnGranules) {
  cca::createOrIncrefPool(0, kPool);
  cca::setNoSplit(0, kPool);
  void* first = take_in(kPool, 512);
  void* second = take_in(kPool, 512);
  constexpr auto granule = 2 * kMiB;
  EXPECT_NE(reinterpret_cast<Address>(first) / granule, reinterpret_cast<Address>(second) / granule);
  cca::raw_delete(first);
  cca::raw_delete(second);
}

TEST_F(C10CudaPools, ACaptureAllocatesAndFreesInItsPoolWithoutSpoilingItself) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  cca::beginAllocateToPool(0, kPool, [&](cudaStream_t one) { return one == stream.stream(); });
  ASSERT_EQ(cudaStreamBeginCapture(stream.stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  c10::DataPtr first = cca::get()->allocate(30 * kMiB);
  c10::DataPtr second = cca::get()->allocate(kMiB);
  cca::recordStream(second, side);
  first.clear();
  second.clear();
  cca::emptyCache();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.stream(), &graph), cudaSuccess);
  EXPECT_NE(graph, nullptr) << "the capture was spoiled";
  cca::endAllocateToPool(0, kPool);
  EXPECT_GT(pool_bytes(kPool), 0u);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  cca::releasePool(0, kPool);
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

/// Somebody else's allocator, of which a pool uses raw_alloc and raw_delete.
TEST_F(C10CudaPools, APoolOfAForeignAllocatorTakesItsSegmentsThereAndGivesThemBackThere) {
  static std::unordered_set<void*> segments;
  class Foreign final : public TorchCudaAllocator {
   public:
    void* raw_alloc(std::size_t bytes) override {
      void* data = nullptr;
      if (cudaMalloc(&data, bytes) != cudaSuccess) return nullptr;
      segments.insert(data);
      return data;
    }
    void raw_delete(void* data) override {
      EXPECT_EQ(segments.erase(data), 1u);
      EXPECT_EQ(cudaFree(data), cudaSuccess);
    }
    // Nothing else of it is ever called.
    c10::DataPtr allocate(std::size_t) override { std::abort(); }
    void copy_data(void*, const void*, std::size_t) const override { std::abort(); }
    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t) override { std::abort(); }
    cca::DeviceStats getDeviceStats(c10::DeviceIndex) override { std::abort(); }
    void resetAccumulatedStats(c10::DeviceIndex) override { std::abort(); }
    void resetPeakStats(c10::DeviceIndex) override { std::abort(); }
    void* raw_alloc_with_stream(std::size_t, cudaStream_t) override { std::abort(); }
    void init(int) override { std::abort(); }
    double getMemoryFraction(c10::DeviceIndex) override { std::abort(); }
    void setMemoryFraction(double, c10::DeviceIndex) override { std::abort(); }
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override { std::abort(); }
    void enable(bool) override { std::abort(); }
    bool isEnabled() const override { std::abort(); }
    void cacheInfo(c10::DeviceIndex, std::size_t*) override { std::abort(); }
    void* getBaseAllocation(void*, std::size_t*) override { std::abort(); }
    using CUDAAllocator::recordStream;
    void recordStream(const c10::DataPtr&, c10::cuda::CUDAStream) override { std::abort(); }
    cca::SnapshotInfo snapshot(c10::MempoolId_t, bool) override { std::abort(); }
    void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t, std::function<bool(cudaStream_t)>) override {
      std::abort();
    }
    void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) override { std::abort(); }
    void releasePool(c10::DeviceIndex, c10::MempoolId_t) override { std::abort(); }
    cca::ShareableHandle shareIpcHandle(void*) override { std::abort(); }
    std::shared_ptr<void> getIpcDevPtr(std::string) override { std::abort(); }
    void recordHistory(bool, cca::CreateContextFn, std::size_t, cca::RecordContext, bool,
                       const std::vector<std::string>&) override {
      std::abort();
    }
    void attachOutOfMemoryObserver(cca::OutOfMemoryObserver) override { std::abort(); }
    void attachAllocatorTraceTracker(cca::AllocatorTraceTracker) override { std::abort(); }
    void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override { std::abort(); }
    cudaError_t memcpyAsync(void*, int, const void*, int, std::size_t, cudaStream_t, bool) override { std::abort(); }
    std::shared_ptr<cca::AllocatorState> getCheckpointState(c10::DeviceIndex, c10::MempoolId_t) override {
      std::abort();
    }
    cca::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex, std::shared_ptr<cca::AllocatorState>) override {
      std::abort();
    }
    std::string name() override { return "foreign"; }
  };

  cca::createOrIncrefPool(0, kPool, std::make_shared<Foreign>());
  void* data = take_in(kPool, 8 * kMiB);
  void* late = take_in(kPool, 8 * kMiB);
  EXPECT_FALSE(segments.empty());
  EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, kPool, {data, late}));
  cca::raw_delete(data);
  EXPECT_FALSE(segments.empty()) << "cached";
  cca::releasePool(0, kPool);
  cca::emptyCache(kPool);
  cca::raw_delete(late);  // after the pool died
  cca::emptyCache();
  EXPECT_TRUE(segments.empty());
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

TEST_F(C10CudaPools, WhatCannotBeOfferedSaysSoAndTheWayRound) {
  try {
    cca::getCheckpointState(0, kPool);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("cudagraph_trees = False"));
  }
}

}  // namespace
}  // namespace cistern::support
