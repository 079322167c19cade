// The allocator over CUDA's sources and fences, end to end on the fake runtime: what the driver sees of it.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/cuda/event_fences.hpp"
#include "cistern/sources/cuda/malloc_source.hpp"
#include "cistern/sources/cuda/vmm_source.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

using support::count_fakes;
using support::fake_api;
using support::kFakeDeviceBytes;
using support::make_stream;

constexpr int kDevice = 1;  // never the current one

enum class Kind { kVmm, kMalloc };

/// An allocator with everything below it; ends audited, with all blocks freed.
class CudaWorld {
 public:
  explicit CudaWorld(Kind kind = Kind::kVmm, const Options& options = {}) : fences(fake_api(), kDevice) {
    cudaSetDevice(kDevice);
    first = make_stream();
    second = make_stream();
    cudaSetDevice(0);
    if (kind == Kind::kVmm) {
      vmm = std::make_unique<VmmSource>(fake_api(), kDevice);
    } else {
      segments = make_malloc_source(fake_api(), kDevice);
    }
    allocator = std::make_unique<CachingAllocator>(options, source(), &fences, DeviceId{kDevice});
    a = fences.identify(first);
    b = fences.identify(second);
  }
  ~CudaWorld() {
    fakecuda_release_all();
    allocator->audit();
    free_all();
    allocator.reset();
  }
  CudaWorld(const CudaWorld&) = delete;
  CudaWorld& operator=(const CudaWorld&) = delete;

  MemorySource& source() { return vmm ? static_cast<MemorySource&>(*vmm) : *segments; }
  KeptFaults& source_faults() { return vmm ? vmm->faults() : segments->faults(); }
  std::size_t reserved() const { return allocator->stats().reserved.current; }

  Result<Allocation, Failure> try_allocate(std::size_t bytes, StreamId stream) {
    auto result = allocator->allocate({.bytes = bytes, .alignment = 512, .stream = stream});
    if (result) live.push_back(result->address);
    return result;
  }
  Address allocate(std::size_t bytes, StreamId stream) {
    const auto result = try_allocate(bytes, stream);
    EXPECT_TRUE(result) << result.error().explain();
    return result ? result->address : 0;
  }
  void free(Address address) {
    live.erase(std::find(live.begin(), live.end(), address));
    allocator->free(address);
  }
  void free_all() {
    while (!live.empty()) free(live.back());
  }
  void use(cudaStream_t stream, Address address, std::size_t bytes) {
    fakecuda_touch(stream, reinterpret_cast<const void*>(address), bytes);
  }

  EventFences fences;
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  StreamId a;
  StreamId b;
  std::unique_ptr<VmmSource> vmm;
  std::unique_ptr<WholeSource> segments;
  std::unique_ptr<CachingAllocator> allocator;
  std::vector<Address> live;
};

std::size_t driver_used_bytes() {
  return kFakeDeviceBytes - fake_api().memory(kDevice).free_bytes;
}

class CudaAllocatorTest : public support::FakeCuda {};

TEST_F(CudaAllocatorTest, GrowsByTheGranuleAndGivesBackWhatTheDriverThenHasFree) {
  CudaWorld world;
  EXPECT_EQ(driver_used_bytes(), 0u);
  const Address block = world.allocate(3 * kMiB, world.a);
  EXPECT_EQ(driver_used_bytes(), 4 * kMiB);
  EXPECT_EQ(world.reserved(), 4 * kMiB);
  world.use(world.first, block, 3 * kMiB);
  world.allocate(5 * kMiB, world.a);
  EXPECT_EQ(driver_used_bytes(), 8 * kMiB);
  world.free_all();
  EXPECT_EQ(driver_used_bytes(), 8 * kMiB) << "kept for the next request";
  EXPECT_EQ(world.allocator->trim(), 8 * kMiB);
  EXPECT_EQ(driver_used_bytes(), 0u);
}

TEST_F(CudaAllocatorTest, ALimitHoldsForWhatTheDriverGave) {
  Options options;
  options.limit = Amount{32 * kMiB, 0.0};
  CudaWorld world(Kind::kVmm, options);
  world.allocate(20 * kMiB, world.a);
  const auto refused = world.try_allocate(20 * kMiB, world.b);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FailureCode::kLimit);
  EXPECT_LE(fakecuda_peak_used_bytes(kDevice), 32 * kMiB);
  EXPECT_TRUE(world.try_allocate(10 * kMiB, world.b));
}

TEST_F(CudaAllocatorTest, ABlockThatAnotherStreamUsesWaitsForIt) {
  for (const Kind kind : {Kind::kVmm, Kind::kMalloc}) {
    CudaWorld world(kind);
    const Address block = world.allocate(32 * kMiB, world.a);  // shares its segment with nothing
    fakecuda_hold(world.second);
    world.use(world.second, block, 32 * kMiB);
    EXPECT_TRUE(world.allocator->record_stream(block, world.b));
    world.free(block);
    EXPECT_NE(world.allocate(32 * kMiB, world.a), block);
    fakecuda_release(world.second);
    EXPECT_EQ(world.allocate(32 * kMiB, world.a), block);
  }
}

TEST_F(CudaAllocatorTest, ATrimWaitsForTheOwnersWorkBeforeItUnmaps) {
  CudaWorld world;
  const Address block = world.allocate(16 * kMiB, world.a);
  fakecuda_hold(world.first);
  world.use(world.first, block, 16 * kMiB);
  world.free(block);
  EXPECT_EQ(world.allocator->trim(), 16 * kMiB);
  EXPECT_EQ(fakecuda_pending(world.first), 0u);
  EXPECT_STREQ(fakecuda_misuses(), "");
}

TEST_F(CudaAllocatorTest, MemoryMovesFromOneStreamToAnotherWhenTheDriverHasNoMore) {
  for (const Kind kind : {Kind::kVmm, Kind::kMalloc}) {
    CudaWorld world(kind);
    const Address block = world.allocate(160 * kMiB, world.a);
    world.use(world.first, block, 160 * kMiB);
    world.free(block);
    const Address moved = world.allocate(200 * kMiB, world.b);
    world.use(world.second, moved, 200 * kMiB);
    EXPECT_EQ(world.reserved(), driver_used_bytes());
  }
}

TEST_F(CudaAllocatorTest, ARefusalOfTheDriverIsToldInNumbers) {
  CudaWorld world;
  world.allocate(200 * kMiB, world.a);
  const auto refused = world.try_allocate(100 * kMiB, world.a);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FailureCode::kSourceRefused);
  EXPECT_EQ(refused.error().source, "vmm");
  EXPECT_NE(refused.error().explain().find("100 MiB"), std::string::npos) << refused.error().explain();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(world.try_allocate(50 * kMiB, world.a));
}

TEST_F(CudaAllocatorTest, ACaptureIsNotSpoiledAndWhatItUsesIsReusedOnlyAfterwards) {
  CudaWorld world;
  const Address block = world.allocate(4 * kMiB, world.a);
  ASSERT_EQ(cudaStreamBeginCapture(world.second, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    world.allocator->record_stream(block, world.b);
    world.free(block);
    EXPECT_NE(world.allocate(4 * kMiB, world.a), block);
    world.allocate(40 * kMiB, world.a);
    world.allocator->trim();
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(world.second, &graph), cudaSuccess) << "the capture was spoiled";
  cudaGraphDestroy(graph);
  world.allocator->trim();
  EXPECT_EQ(world.allocator->stats().pending_bytes, 0u);
}

TEST_F(CudaAllocatorTest, BlocksOfADestroyedStreamAreFencedByTheDevice) {
  CudaWorld world;
  const Address block = world.allocate(8 * kMiB, world.a);
  ASSERT_EQ(cudaStreamDestroy(world.first), cudaSuccess);
  world.free(block);
  const std::uint64_t before = fakecuda_calls("cudaDeviceSynchronize");
  EXPECT_EQ(world.allocator->trim(), 8 * kMiB);
  EXPECT_GT(fakecuda_calls("cudaDeviceSynchronize"), before);
}

/// Growth on two streams, a use across streams, a trim, and growth over what it left. A fault may end it anywhere.
void scenario(CudaWorld& world) {
  const Address shared = world.allocate(5 * kMiB, world.a);
  const Address other = world.allocate(9 * kMiB, world.b);
  world.allocator->record_stream(shared, world.b);
  world.use(world.second, shared, 5 * kMiB);
  world.free(shared);
  world.allocate(5 * kMiB, world.a);
  world.allocate(3 * kMiB, world.a);
  world.free(other);
  world.allocator->trim();
  world.allocate(30 * kMiB, world.b);
}

TEST_F(CudaAllocatorTest, AFaultOfAnyCallLeavesAnAllocatorThatWorksAndNothingBehind) {
  for (const Kind kind : {Kind::kVmm, Kind::kMalloc}) {
    std::uint64_t struck = 0;
    std::uint64_t told = 0;
    for (std::uint64_t nth = 1;; ++nth) {
      SCOPED_TRACE("call " + std::to_string(nth));
      CudaWorld world(kind);
      fakecuda_reset_calls();
      fakecuda_fail_call("*", nth, cudaErrorUnknown);
      bool thrown = false;
      try {
        scenario(world);
      } catch (const DriverError& error) {
        thrown = true;
        EXPECT_NE(std::string(error.what()).find(std::string(error.call()) + " failed"), std::string::npos);
      }
      const bool over = fakecuda_calls("*") < nth;
      fakecuda_clear_failures();
      cudaGetLastError();
      const bool kept = world.source_faults().take() || world.fences.faults().take();
      if (over) break;
      ++struck;
      told += thrown || kept ? 1 : 0;
      world.allocator->audit();
      world.free_all();
      EXPECT_NO_THROW(scenario(world));
      world.free_all();
      world.allocator->trim();
      EXPECT_EQ(driver_used_bytes(), 0u) << fakecuda_live_text();
    }
    EXPECT_GT(struck, 50u);
    // Left are calls whose failure nobody need hear of: asking for relaxed mode, clearing the last error.
    EXPECT_GT(told * 2, struck);
  }
}

TEST_F(CudaAllocatorTest, RunningOutInAnyCallIsServedOrRefusedNeverAnError) {
  for (std::uint64_t nth = 1; nth <= 30; ++nth) {
    CudaWorld world;
    for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve"}) {
      fakecuda_fail_call(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
    }
    for (int i = 0; i < 10; ++i) {
      EXPECT_NO_THROW(world.try_allocate(5 * kMiB, i % 2 == 0 ? world.a : world.b));
      world.allocator->audit();
      EXPECT_EQ(world.reserved(), driver_used_bytes());
    }
    fakecuda_clear_failures();
    EXPECT_TRUE(world.try_allocate(5 * kMiB, world.a));
  }
}

TEST_F(CudaAllocatorTest, TwoThreadsOnTwoStreamsShareTheDevice) {
  CudaWorld world;
  const auto work = [&](StreamId own, StreamId other, cudaStream_t other_stream) {
    for (int i = 0; i < 300; ++i) {
      const auto bytes = static_cast<std::size_t>(1 + i % 7) * kMiB;
      const auto grant = world.allocator->allocate({.bytes = bytes, .alignment = 512, .stream = own});
      ASSERT_TRUE(grant) << grant.error().explain();
      if (i % 3 == 0) {
        world.allocator->record_stream(grant->address, other);
        world.use(other_stream, grant->address, bytes);
      }
      world.allocator->free(grant->address);
      if (i % 50 == 49) world.allocator->trim();
    }
  };
  std::thread one([&] { work(world.a, world.b, world.second); });
  std::thread two([&] { work(world.b, world.a, world.first); });
  one.join();
  two.join();
  world.allocator->trim();
  EXPECT_EQ(driver_used_bytes(), 0u);
}

}  // namespace
}  // namespace cistern
