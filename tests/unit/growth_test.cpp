// How much a miss asks of the source: growth, geometric, preallocate; holes and remapping.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;
using support::WorldOptions;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

TEST(Growth, CommitsToTheGranule) {
  World world;
  world.allocate(1, kA);
  EXPECT_EQ(world.reserved(), 2 * kMiB);
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 6 * kMiB) << "small and large blocks live in ranges of their own";
}

TEST(Growth, ExtendsTheFreeEndOfARange) {
  World world;
  world.allocate(3 * kMiB, kA);
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 6 * kMiB) << "the second starts in the granule where the first ends";
}

TEST(Growth, GivesMemoryToAHoleBetweenFreeBlocks) {
  World world(world_with({.remap_slack = 1.0}));
  const Address first = world.allocate(4 * kMiB, kA);
  const Address second = world.allocate(4 * kMiB, kA);
  const Address third = world.allocate(4 * kMiB, kA);
  world.free(second);
  world.trim();
  ASSERT_EQ(world.reserved(), 8 * kMiB);
  world.free(first);
  world.free(third);
  EXPECT_EQ(world.allocate(12 * kMiB, kA), first);
  EXPECT_EQ(world.reserved(), 12 * kMiB);
  EXPECT_EQ(world.source.cost(SourceVerb::kReserve).calls, 1u);
}

TEST(Growth, StartsAnotherRangeWhenAddressSpaceRunsOut) {
  WorldOptions options;
  options.source.range_step_bytes = 8 * kMiB;
  World world(options);
  world.allocate(6 * kMiB, kA);
  world.allocate(6 * kMiB, kA);
  EXPECT_EQ(world.source.range_count(), 2u);
  world.allocate(20 * kMiB, kA);
  EXPECT_EQ(world.source.range_count(), 3u) << "a range holds what its first block needs";
}

TEST(Growth, ALargerBlockAfterOneBeyondTheStepBringsOnlyWhatItIsLarger) {
  WorldOptions options;
  options.source.range_step_bytes = 8 * kMiB;
  World world(options);
  const Address first = world.allocate(10 * kMiB, kA);
  world.free(first);
  EXPECT_EQ(world.allocate(16 * kMiB, kA), first);
  EXPECT_EQ(world.source.range_count(), 1u);
  EXPECT_EQ(world->stats().source_calls.commit, 2u);
  EXPECT_EQ(world.reserved(), 16 * kMiB);
}

TEST(Growth, RemapsIdleMemoryRatherThanGrow) {
  World world;
  std::vector<Address> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(world.allocate(4 * kMiB, kA));
  for (std::size_t i = 0; i < 16; i += 2) world.free(blocks[i]);
  world.allocate(24 * kMiB, kA);
  EXPECT_LE(world.reserved(), 82 * kMiB) << "1 % and eight granules above the peak; eight pieces of 4 MiB were idle";
  EXPECT_GE(world->stats().source_calls.remapped_bytes, 6 * kMiB);
}

TEST(Growth, WaitsForAStreamBeforeItTakesOverWhatThatMayStillUse) {
  World world;
  const Address block = world.allocate(64 * kMiB, kA);
  world.queue(kA);
  world.free(block);
  EXPECT_EQ(world.allocate(64 * kMiB, kB), block) << "the range has another stream now";
  EXPECT_EQ(world.fences.wait_count(), 1u);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  EXPECT_EQ(world.source_calls(), 2u) << "the source was not asked";
}

TEST(Growth, TakesOverWhatIsIdleWithoutWaiting) {
  World world;
  const Address idle = world.allocate(64 * kMiB, kA);
  const Address busy = world.allocate(64 * kMiB, kB);
  world.queue(kB);
  world.free(busy);
  world.free(idle);
  EXPECT_EQ(world.allocate(60 * kMiB, StreamId{3}), idle);
  EXPECT_EQ(world.fences.wait_count(), 0u);
}

TEST(Growth, TakesOverAfterTheLastUseByAThirdStreamIsDone) {
  World world;
  const Address block = world.allocate(64 * kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.free(block);
  const Address other = world.allocate(64 * kMiB, StreamId{3});
  EXPECT_NE(other, block) << "still used";
  world.free(other);
  world.complete(kB);
  EXPECT_EQ(world.allocate(64 * kMiB, StreamId{4}), block);
}

TEST(Growth, LeavesTheMemoryOfAPoolInIt) {
  World world;
  const PoolId pool = world->create_pool();
  world.free(world.allocate(64 * kMiB, kA, pool));
  world.allocate(64 * kMiB, kB);
  EXPECT_EQ(world.reserved(), 128 * kMiB);
}

TEST(Growth, DoesNotTakeWhatAStreamMayStillUseWhileItCannotWait) {
  World world;
  const Address block = world.allocate(64 * kMiB, kA);
  world.queue(kA);
  world.free(block);
  world.fences.set_capturing(true);
  EXPECT_NE(world.allocate(64 * kMiB, kB), block);
  EXPECT_EQ(world->stats().source_calls.remapped_bytes, 0u);
  EXPECT_EQ(world.reserved(), 128 * kMiB);
}

TEST(Growth, LosesPatienceWithTheDeviceInTheEnd) {
  World world;
  for (std::uint64_t request = 0; request < 200; ++request) {
    const StreamId stream{1 + request % 8};  // each finds the range with the one before
    const Address block = world.allocate(64 * kMiB, stream);
    world.queue(stream);
    world.free(block);
    if (world.reserved() > 64 * kMiB) break;
  }
  EXPECT_EQ(world.fences.wait_count(), 64u);
  EXPECT_EQ(world.reserved(), 128 * kMiB) << "it creates rather than wait for ever";
}

TEST(Growth, PutsSmallBlocksAmongLargeOnesRatherThanRemap) {
  World world;
  std::vector<Address> blocks;
  for (int i = 0; i < 60; ++i) blocks.push_back(world.allocate(1536 * kKiB, kA));
  while (!blocks.empty()) {
    world.free(blocks.back());
    blocks.pop_back();
  }
  for (int i = 0; i < 100; ++i) world.allocate(512 * kKiB, kA);
  EXPECT_EQ(world->stats().source_calls.remapped_bytes, 0u);
  EXPECT_LE(world.reserved(), 108 * kMiB) << "90 MiB at the peak";
}

TEST(Growth, RemembersThePeakWhenStatisticsForgetIt) {
  World world;
  std::vector<Address> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(world.allocate(4 * kMiB, kA));
  for (std::size_t i = 0; i < 64; i += 2) world.free(blocks[i]);
  world->reset_peak();
  world.allocate(6 * kMiB, kA);
  EXPECT_EQ(world->stats().source_calls.remapped_bytes, 0u) << "256 MiB were active once, so 266 are no reason to remap";
}

TEST(Growth, SeveralLargeBlocksShareASegmentThatGoesBackWhole) {
  WorldOptions options;
  options.source.whole_only = options.source.shared_segments = true;
  World world(options);
  for (int i = 0; i < 8; ++i) world.allocate(4 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 32 * kMiB);
  EXPECT_EQ(world.source.range_count(), 1u);
  world.allocate(24 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 56 * kMiB);
}

TEST(Growth, TakesASegmentOfTheNeedWhereALimitLeavesNoMore) {
  WorldOptions options = world_with({.limit = bytes(16 * kMiB)});
  options.source.whole_only = options.source.shared_segments = true;
  World world(options);
  world.allocate(4 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 4 * kMiB);
}

TEST(Growth, WithSlackOfOneNeverRemaps) {
  World world(world_with({.remap_slack = 1.0}));
  world.free(world.allocate(32 * kMiB, kA));
  world.allocate(32 * kMiB, kB);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  EXPECT_EQ(world->stats().source_calls.decommit, 0u);
}

TEST(Growth, NeverUsesMoreSourceCallsThanItsPartsExplain) {
  World world;
  for (int i = 0; i < 32; ++i) world.allocate(2 * kMiB, kA);
  EXPECT_EQ(world->stats().source_calls.reserve, 1u);
  EXPECT_EQ(world->stats().source_calls.commit, 32u);
}

TEST(Geometric, DoublesWhatIsHeld) {
  World world(world_with({.strategy = Strategy::kGeometric}));
  for (int i = 0; i < 128; ++i) world.allocate(2 * kMiB, kA);
  EXPECT_LE(world->stats().source_calls.commit, 9u);
  EXPECT_LE(world.reserved(), 512 * kMiB);
}

TEST(Geometric, StepsDownToTheNeedWhenTheSourceRefusesTheWish) {
  WorldOptions options = world_with({.strategy = Strategy::kGeometric});
  options.source.capacity_bytes = 100 * kMiB;
  World world(options);
  for (int i = 0; i < 50; ++i) EXPECT_NE(world.allocate(2 * kMiB, kA), 0u);
  EXPECT_EQ(world.reserved(), 100 * kMiB);
}

TEST(Geometric, StaysWithinALimit) {
  World world(world_with({.strategy = Strategy::kGeometric, .limit = bytes(100 * kMiB)}));
  for (int i = 0; i < 50; ++i) EXPECT_NE(world.allocate(2 * kMiB, kA), 0u);
  EXPECT_EQ(world.reserved(), 100 * kMiB);
}

TEST(Preallocate, TakesAllAtTheFirstAllocationAndMakesNoCallAfterIt) {
  World world(world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(64 * kMiB)}));
  EXPECT_EQ(world.reserved(), 0u) << "nothing before the first allocation";
  world.allocate(1000, kA);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  const std::uint64_t calls = world.source_calls();
  std::vector<Address> blocks;
  for (int i = 0; i < 30; ++i) blocks.push_back(world.allocate(2 * kMiB, kA));
  for (const Address block : blocks) world.free(block);
  EXPECT_EQ(world.source_calls(), calls);
}

TEST(Preallocate, WithoutASizeTakesTheLimit) {
  World world(world_with({.strategy = Strategy::kPreallocate, .limit = bytes(96 * kMiB)}));
  world.allocate(1000, kA);
  EXPECT_EQ(world.reserved(), 96 * kMiB);
}

TEST(Preallocate, IsNotBoundByTheAddressSpaceReservedAtOnce) {
  WorldOptions options = world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(96 * kMiB)});
  options.source.range_step_bytes = 8 * kMiB;
  World world(options);
  world.allocate(1000, kA);
  EXPECT_EQ(world.reserved(), 96 * kMiB);
}

TEST(Preallocate, WithoutLimitTakesWhatIsFreeLessHeadroom) {
  World world(world_with({.strategy = Strategy::kPreallocate, .headroom_bytes = 100 * kMiB}));
  world.allocate(1000, kA);
  EXPECT_EQ(world.reserved(), kGiB - 100 * kMiB);
}

TEST(Preallocate, ShrinksOnlyWhenTheSourceRefuses) {
  World world(world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(512 * kMiB)}));
  world.source.refuse_when(
      [](const SourceCall& call) { return call.verb == SourceVerb::kCommit && call.bytes > 300 * kMiB; });
  world.allocate(1000, kA);
  EXPECT_GT(world.reserved(), 256 * kMiB);
  EXPECT_LE(world.reserved(), 300 * kMiB);
}

TEST(Preallocate, WhenFullGrowsUpToTheLimitAndCountsIt) {
  World world(world_with(
      {.strategy = Strategy::kPreallocate, .limit = bytes(64 * kMiB), .preallocate = bytes(32 * kMiB)}));
  world.allocate(32 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 32 * kMiB);
  world.allocate(20 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 52 * kMiB);
  EXPECT_FALSE(world.try_allocate(20 * kMiB, kA));
}

TEST(Preallocate, KeepsSmallBlocksAwayFromTheFrontOfLargeFreeOnes) {
  World world(world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(64 * kMiB)}));
  const Address small = world.allocate(512, kA);
  EXPECT_NE(world.allocate(63 * kMiB, kA), 0u) << "no hole was split in the middle";
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  world.free(small);
}

TEST(Preallocate, IsForEverybodyAndNotForThePoolThatComesFirst) {
  World world(world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(64 * kMiB)}));
  const PoolId pool = world->create_pool();
  world.allocate(3 * kMiB, kA, pool);
  EXPECT_EQ(world.reserved(), 4 * kMiB);
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 68 * kMiB);
}

TEST(StrategyAtRunTime, FromPreallocateToGrowthLetsTrimGiveThePreallocationBack) {
  World world(world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(64 * kMiB)}));
  world.allocate(3 * kMiB, kA);
  world.trim();
  EXPECT_EQ(world.reserved(), 64 * kMiB) << "a preallocation stays";
  world->set_strategy(Strategy::kGrowth);
  EXPECT_EQ(world.reserved(), 64 * kMiB) << "nothing goes unasked";
  world.trim();
  EXPECT_EQ(world.reserved(), 4 * kMiB);
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 6 * kMiB);
}

TEST(StrategyAtRunTime, FromGrowthToPreallocateTakesTheRestAtTheNextMissOfALargeBlock) {
  World world(world_with({.limit = bytes(64 * kMiB)}));
  world.allocate(3 * kMiB, kA);
  world->set_strategy(Strategy::kPreallocate);
  world.allocate(100, kA);
  EXPECT_EQ(world.reserved(), 6 * kMiB) << "small blocks have ranges of their own, and take no preallocation";
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  EXPECT_EQ(world->options().strategy, Strategy::kPreallocate);
}

TEST(StrategyAtRunTime, BeforeTheFirstBlockIsAsIfItHadAlwaysBeenSo) {
  World world(world_with({.preallocate = bytes(64 * kMiB)}));
  world->set_strategy(Strategy::kPreallocate);
  world.allocate(512, kA);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  EXPECT_NE(world.allocate(63 * kMiB, kA), 0u) << "small blocks keep to one end of the preallocation";
  EXPECT_EQ(world.reserved(), 64 * kMiB);
}

TEST(StrategyAtRunTime, HeadroomIsWhatALaterPreallocationLeavesFree) {
  World world;
  world->set_headroom(kGiB - 64 * kMiB);
  world->set_strategy(Strategy::kPreallocate);
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
}

TEST(WholeOnly, TakesASegmentOfItsOwnForEachNeed) {
  WorldOptions options;
  options.source.whole_only = true;
  World world(options);
  world.allocate(3 * kMiB, kA);
  world.allocate(3 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 8 * kMiB);
  EXPECT_EQ(world->stats().segments.current, 2u);
}

/// Calls `when_asked` at its next reserve: after the last look for a free block, in the middle of a growth.
class AskedSource final : public MemorySource {
 public:
  const SourceTraits& traits() const noexcept override { return source_.traits(); }
  std::size_t available_bytes() const override { return source_.available_bytes(); }
  std::optional<SourceRange> reserve(std::size_t bytes) override {
    if (when_asked) std::exchange(when_asked, nullptr)();
    return source_.reserve(bytes);
  }
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override {
    return source_.commit(range, offset, bytes);
  }
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override {
    source_.decommit(range, offset, bytes);
  }
  void unreserve(RangeId range) override { source_.unreserve(range); }

  std::function<void()> when_asked;

 private:
  SimulatedSource source_{{.granule_bytes = 2 * kMiB, .capacity_bytes = kGiB, .range_step_bytes = 16 * kMiB}};
};

TEST(Growth, ServesFromWhatAnotherThreadFreedMeanwhileAndCommitsNothing) {
  AskedSource source;
  CachingAllocator allocator({}, source);
  const auto first = allocator.allocate({.bytes = 10 * kMiB});
  ASSERT_TRUE(first);
  source.when_asked = [&] { allocator.free(first->address); };
  const auto second = allocator.allocate({.bytes = 8 * kMiB});
  ASSERT_TRUE(second) << second.error().explain();
  EXPECT_FALSE(source.when_asked) << "the free came in the middle of the growth";
  EXPECT_EQ(second->address, first->address);
  EXPECT_EQ(allocator.stats().reserved.current, 10 * kMiB);
  allocator.free(second->address);
}

}  // namespace
}  // namespace cistern
