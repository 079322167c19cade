// Segments from the runtime: device memory by cudaMalloc, pinned host memory by cudaHostAlloc.
#include <thread>

#include "cistern/sources/cuda/malloc_source.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

using support::count_fakes;
using support::current_device;
using support::fake_api;
using support::kFakeDeviceBytes;
using support::make_stream;

class MallocSourceTest : public support::FakeCuda {};

TEST_F(MallocSourceTest, SegmentsAreTakenAndGivenWholeOnTheirDevice) {
  const auto source = make_malloc_source(fake_api(), 1);
  EXPECT_EQ(source->traits().name, "malloc");
  EXPECT_TRUE(source->traits().whole_only);
  EXPECT_EQ(source->traits().capacity_bytes, kFakeDeviceBytes);
  const auto range = source->reserve(20 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(source->commit(range->id, 0, range->bytes), range->bytes);
  EXPECT_EQ(fakecuda_used_bytes(1), 20 * kMiB);
  EXPECT_EQ(source->available_bytes(), kFakeDeviceBytes - 20 * kMiB);
  const auto base = source->base_allocation(range->address + 5);
  ASSERT_TRUE(base);
  EXPECT_EQ(base->address, range->address);
  EXPECT_EQ(base->bytes, range->bytes);
  EXPECT_FALSE(source->base_allocation(range->address + range->bytes));
  source->decommit(range->id, 0, range->bytes);
  source->unreserve(range->id);
  EXPECT_EQ(fakecuda_used_bytes(1), 0u);
  EXPECT_EQ(current_device(), 0);
}

TEST_F(MallocSourceTest, RunningOutIsARefusalThatLeavesNoErrorBehind) {
  const auto source = make_malloc_source(fake_api(), 0);
  EXPECT_FALSE(source->reserve(kFakeDeviceBytes + 2 * kMiB));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(MallocSourceTest, AnyOtherFailureIsAnErrorThatNamesTheCall) {
  const auto source = make_malloc_source(fake_api(), 0);
  fakecuda_fail_call("cudaMalloc", 1, cudaErrorUnknown);
  try {
    source->reserve(2 * kMiB);
    FAIL() << "no error";
  } catch (const DriverError& error) {
    EXPECT_STREQ(error.call(), "cudaMalloc");
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(source->reserve(2 * kMiB));
}

TEST_F(MallocSourceTest, AFreeThatFailsIsKeptAndTriedAgain) {
  const auto source = make_malloc_source(fake_api(), 0);
  const auto first = source->reserve(2 * kMiB);
  const auto second = source->reserve(4 * kMiB);
  fakecuda_fail_call("cudaFree", 1, cudaErrorUnknown);
  source->unreserve(first->id);
  EXPECT_STREQ(source->faults().take()->call(), "cudaFree");
  EXPECT_EQ(count_fakes().device_allocations, 2u);
  EXPECT_TRUE(source->reserve(6 * kMiB));
  EXPECT_EQ(count_fakes().device_allocations, 2u) << "the first went back meanwhile";
  fakecuda_fail_call("cudaFree", 1, cudaErrorUnknown);
  source->unreserve(second->id);
  EXPECT_EQ(count_fakes().device_allocations, 2u) << "goes back when the source ends";
}

TEST_F(MallocSourceTest, SegmentsComeWhileAnotherThreadCaptures) {
  const auto source = make_malloc_source(fake_api(), 0);
  const cudaStream_t stream = make_stream();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    const auto range = source->reserve(2 * kMiB);
    ASSERT_TRUE(range);
    source->unreserve(range->id);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(MallocSourceTest, PinnedMemoryIsHostMemoryAndMayBeWritten) {
  const auto source = make_pinned_source(fake_api(), 1);
  EXPECT_EQ(source->traits().name, "pinned");
  const auto range = source->reserve(4 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(count_fakes().host_allocations, 1u);
  EXPECT_EQ(range->address % source->traits().granule_bytes, 0u);
  auto* const bytes = reinterpret_cast<char*>(range->address);
  bytes[0] = bytes[range->bytes - 1] = 1;
  EXPECT_EQ(fakecuda_used_bytes(1), 0u);
  source->unreserve(range->id);
  EXPECT_EQ(count_fakes().host_allocations, 0u);
  EXPECT_EQ(current_device(), 0);
}

TEST_F(MallocSourceTest, PinnedMemoryThatIsRefusedIsARefusal) {
  const auto source = make_pinned_source(fake_api(), 0);
  fakecuda_fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  EXPECT_FALSE(source->reserve(2 * kMiB));
}

}  // namespace
}  // namespace cistern
