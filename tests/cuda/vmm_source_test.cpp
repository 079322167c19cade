// Memory by granules: what the driver holds after each call, whatever call of it fails.
#include <array>
#include <exception>
#include <string>
#include <thread>

#include "cistern/sources/cuda/vmm_source.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

using support::count_fakes;
using support::current_device;
using support::fake_api;
using support::kFakeDeviceBytes;
using support::make_stream;

constexpr std::size_t kGranule = 2 * kMiB;

class VmmSourceTest : public support::FakeCuda {
 protected:
  SourceRange committed(VmmSource& source, std::size_t granules) {
    const auto range = source.reserve(granules * kGranule);
    EXPECT_TRUE(range);
    EXPECT_EQ(source.commit(range->id, 0, range->bytes), range->bytes);
    return *range;
  }
};

bool may_use(Address address, int device) {
  unsigned long long flags = 0;
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  EXPECT_EQ(cuMemGetAccess(&flags, &location, address), CUDA_SUCCESS);
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

TEST_F(VmmSourceTest, AsksTheDriverForGranuleAndCapacity) {
  VmmSource source(fake_api(), 1);
  EXPECT_EQ(source.traits().name, "vmm");
  EXPECT_EQ(source.traits().granule_bytes, kGranule);
  EXPECT_EQ(source.traits().capacity_bytes, kFakeDeviceBytes);
  EXPECT_FALSE(source.traits().whole_only);
  EXPECT_EQ(VmmSource(fake_api(), 0, {.granule_bytes = 8 * kMiB}).traits().granule_bytes, 8 * kMiB);
}

TEST_F(VmmSourceTest, AddressSpaceIsNotMemoryAndMemoryIsOnItsDevice) {
  VmmSource source(fake_api(), 1);
  const auto range = source.reserve(kFakeDeviceBytes * 4);
  ASSERT_TRUE(range);
  EXPECT_EQ(fakecuda_used_bytes(1), 0u);
  EXPECT_EQ(source.commit(range->id, 3 * kGranule, 2 * kGranule), 2 * kGranule);
  EXPECT_EQ(fakecuda_used_bytes(1), 2 * kGranule);
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
  EXPECT_TRUE(may_use(range->address + 4 * kGranule, 1));
  EXPECT_EQ(current_device(), 0);
}

TEST_F(VmmSourceTest, WhatIsDecommittedIsFreeForEverybody) {
  VmmSource source(fake_api(), 0);
  const SourceRange range = committed(source, 8);
  EXPECT_EQ(source.available_bytes(), kFakeDeviceBytes - 8 * kGranule);
  source.decommit(range.id, 2 * kGranule, 3 * kGranule);
  EXPECT_EQ(source.available_bytes(), kFakeDeviceBytes - 5 * kGranule);
  EXPECT_EQ(count_fakes().physical_handles, 5u);
}

TEST_F(VmmSourceTest, ACommitThatMemoryRunsOutForIsRolledBack) {
  VmmSource source(fake_api(), 0);
  const SourceRange held = committed(source, 100);
  const auto range = source.reserve(100 * kGranule);
  EXPECT_EQ(source.commit(range->id, 0, range->bytes), 0u);
  EXPECT_EQ(count_fakes().physical_handles, 100u);
  EXPECT_EQ(count_fakes().mappings, 100u);
  EXPECT_EQ(source.commit(range->id, 0, 28 * kGranule), 28 * kGranule);
  source.decommit(held.id, 0, held.bytes);
}

constexpr std::array kCalls = {"cuMemAddressReserve", "cuMemCreate",  "cuMemMap",        "cuMemSetAccess",
                               "cuMemUnmap",          "cuMemRelease", "cuMemAddressFree"};

/// One life of a range; what a commit gave is all there, or nothing of it. Throws what a commit threw, at the end.
void live_one_life(VmmSource& source) {
  const auto range = source.reserve(6 * kGranule);
  if (!range) return;
  std::exception_ptr error;
  const auto commit = [&](std::size_t first, std::size_t count) {
    const std::size_t before = count_fakes().physical_bytes;
    std::size_t done = 0;
    try {
      done = source.commit(range->id, first * kGranule, count * kGranule);
    } catch (const DriverError&) {
      error = std::current_exception();
    }
    if (done == 0) {
      EXPECT_EQ(count_fakes().physical_bytes, before) << "half a commit";
    }
    return done != 0;
  };
  if (commit(1, 3)) {
    source.decommit(range->id, 2 * kGranule, kGranule);
    if (commit(2, 1)) source.decommit(range->id, 2 * kGranule, kGranule);
    source.decommit(range->id, kGranule, kGranule);
    source.decommit(range->id, 3 * kGranule, kGranule);
  }
  source.unreserve(range->id);
  if (error) std::rethrow_exception(error);
}

TEST_F(VmmSourceTest, AFaultOfAnyCallIsToldByNameAndTheNextLifeIsUnharmed) {
  for (const char* call : kCalls) {
    for (std::uint64_t nth = 1; nth <= 5; ++nth) {
      SCOPED_TRACE(call + (" " + std::to_string(nth)));
      VmmSource source(fake_api(), 0);
      fakecuda_reset_calls();
      fakecuda_fail_call(call, nth, CUDA_ERROR_UNKNOWN);
      std::string told;
      try {
        live_one_life(source);
      } catch (const DriverError& error) {
        told = error.call();
      }
      if (const auto kept = source.faults().take()) told = kept->call();
      EXPECT_EQ(told, fakecuda_calls(call) >= nth ? call : "");
      fakecuda_clear_failures();
      EXPECT_NO_THROW(live_one_life(source));
      const fakecuda_counts left = count_fakes();
      EXPECT_EQ(left.physical_handles + left.mappings + left.address_ranges, 0u) << fakecuda_live_text();
    }
  }
}

TEST_F(VmmSourceTest, RunningOutInAnyCallIsARefusalNotAnError) {
  for (const char* call : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      VmmSource source(fake_api(), 0);
      fakecuda_fail_call(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_NO_THROW(live_one_life(source)) << call;
      fakecuda_clear_failures();
      EXPECT_EQ(source.faults().count(), 0u);
      EXPECT_EQ(count_fakes().physical_handles, 0u);
    }
  }
}

TEST_F(VmmSourceTest, AGranuleThatTheDriverKeptIsUsedAgainAtItsPlace) {
  VmmSource source(fake_api(), 0);
  const SourceRange range = committed(source, 2);
  fakecuda_fail_call("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
  source.decommit(range.id, 0, range.bytes);
  EXPECT_STREQ(source.faults().take()->call(), "cuMemUnmap");
  EXPECT_EQ(count_fakes().mappings, 1u);
  EXPECT_EQ(source.commit(range.id, 0, range.bytes), range.bytes);
  EXPECT_EQ(count_fakes().mappings, 2u);
  EXPECT_EQ(count_fakes().physical_handles, 2u);
}

TEST_F(VmmSourceTest, APeerMayUseWhatIsThereAndWhatComes) {
  VmmSource source(fake_api(), 0);
  const SourceRange early = committed(source, 3);
  source.decommit(early.id, kGranule, kGranule);
  EXPECT_FALSE(may_use(early.address, 1));
  source.add_peer(1);
  source.add_peer(1);
  EXPECT_TRUE(may_use(early.address, 1));
  EXPECT_TRUE(may_use(early.address + 2 * kGranule, 1));
  const SourceRange late = committed(source, 1);
  EXPECT_TRUE(may_use(late.address, 0));
  EXPECT_TRUE(may_use(late.address, 1));
}

TEST_F(VmmSourceTest, APeerThatCannotHaveAllHasNothing) {
  VmmSource source(fake_api(), 0);
  const SourceRange first = committed(source, 1);
  const SourceRange second = committed(source, 1);
  fakecuda_fail_call("cuMemSetAccess", 2, CUDA_ERROR_UNKNOWN);
  EXPECT_THROW(source.add_peer(1), DriverError);
  EXPECT_FALSE(may_use(first.address, 1));
  EXPECT_FALSE(may_use(second.address, 1));
  const SourceRange third = committed(source, 1);
  EXPECT_FALSE(may_use(third.address, 1));
}

TEST_F(VmmSourceTest, ExportedGranulesHoldTheAddressAndArePinned) {
  VmmSource source(fake_api(), 0);
  const SourceRange range = committed(source, 5);
  const Address address = range.address + kGranule + 512;
  const ExportedGranules exported = source.export_granules(address, 2 * kGranule);
  EXPECT_EQ(exported.base, range.address + kGranule) << "never the whole range";
  EXPECT_EQ(exported.descriptors.size(), 3u);
  EXPECT_EQ(source.base_allocation(address, 2 * kGranule).address, exported.base);
  EXPECT_EQ(source.base_allocation(address, 2 * kGranule).bytes, 3 * kGranule);
  CUmemGenericAllocationHandle imported = 0;
  const auto descriptor = static_cast<std::intptr_t>(exported.descriptors.front().get());
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(descriptor),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  EXPECT_FALSE(source.is_pinned(range.address, kGranule));
  EXPECT_TRUE(source.is_pinned(range.address, range.bytes));
  source.unpin(address, 2 * kGranule);
  EXPECT_FALSE(source.is_pinned(range.address, range.bytes));
  source.decommit(range.id, 0, range.bytes);
}

TEST_F(VmmSourceTest, AnExportThatFailsPinsNothing) {
  VmmSource source(fake_api(), 0);
  const SourceRange range = committed(source, 3);
  fakecuda_fail_call("cuMemExportToShareableHandle", 2, CUDA_ERROR_UNKNOWN);
  EXPECT_THROW(source.export_granules(range.address, range.bytes), DriverError);
  EXPECT_FALSE(source.is_pinned(range.address, range.bytes));
}

using VmmSourceDeathTest = VmmSourceTest;

TEST_F(VmmSourceDeathTest, DecommittingAPinnedGranuleIsMisuse) {
  VmmSource source(fake_api(), 0);
  const SourceRange range = committed(source, 1);
  const ExportedGranules exported = source.export_granules(range.address, 1);
  EXPECT_DEATH(source.decommit(range.id, 0, range.bytes), "pins");
}

TEST_F(VmmSourceTest, GrowthInOneThreadLeavesACaptureInAnotherUnharmed) {
  VmmSource source(fake_api(), 0);
  const cudaStream_t stream = make_stream();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    const SourceRange range = committed(source, 2);
    EXPECT_EQ(source.available_bytes(), kFakeDeviceBytes - 2 * kGranule);
    source.decommit(range.id, 0, range.bytes);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace cistern
