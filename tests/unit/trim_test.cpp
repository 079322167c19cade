// When idle memory goes back, and what has to be done first (I13).
#include <gtest/gtest.h>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

TEST(Trim, KeepAllGivesNothingBackByItself) {
  World world;
  world.free(world.allocate(64 * kMiB, kA));
  world.allocate(kMiB, kA);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
}

TEST(Trim, GivesEverythingIdleBackAndSaysHowMuch) {
  World world(world_with({.remap_slack = 1.0}));
  world.free(world.allocate(64 * kMiB, kA));
  world.free(world.allocate(1000, kB));
  EXPECT_EQ(world.trim(), 66 * kMiB);
  EXPECT_EQ(world.reserved(), 0u);
  EXPECT_EQ(world.source.held_bytes(), 0u);
}

TEST(Trim, KeepsWhatItIsToldToKeep) {
  World world;
  world.free(world.allocate(64 * kMiB, kA));
  EXPECT_EQ(world.trim(10 * kMiB), 54 * kMiB);
  EXPECT_EQ(world.reserved(), 10 * kMiB);
  EXPECT_EQ(world.trim(10 * kMiB), 0u);
}

TEST(Trim, TakesTheIdleGranulesAroundLiveBlocks) {
  World world;
  const Address first = world.allocate(10 * kMiB, kA);
  const Address live = world.allocate(2 * kMiB, kA);
  const Address last = world.allocate(10 * kMiB, kA);
  world.free(first);
  world.free(last);
  EXPECT_EQ(world.trim(), 20 * kMiB);
  EXPECT_EQ(world.reserved(), 2 * kMiB);
  world.free(live);
}

TEST(Trim, LeavesAGranuleThatIsPartlyInUse) {
  World world;
  const Address live = world.allocate(kMiB, kA);
  world.free(world.allocate(kMiB, kA));
  EXPECT_EQ(world.trim(), 0u);
  world.free(live);
  EXPECT_EQ(world.trim(), 2 * kMiB);
}

TEST(Trim, TakesBackHolesOnTheNextMiss) {
  World world;
  const Address first = world.allocate(10 * kMiB, kA);
  world.allocate(2 * kMiB, kA);
  world.free(first);
  world.trim();
  EXPECT_EQ(world.allocate(10 * kMiB, kA), first) << "the hole gets memory again";
  EXPECT_EQ(world.source.cost(SourceVerb::kReserve).calls, world->stats().source_calls.reserve);
}

TEST(Trim, WaitsForTheOwnersWorkBeforeMemoryGoes) {
  World world;
  const Address block = world.allocate(4 * kMiB, kA);
  world.queue(kA);
  world.free(block);
  EXPECT_EQ(world.fences.record_count(), 0u) << "owner fences are recorded when wanted, never per free";
  EXPECT_EQ(world.trim(), 4 * kMiB);
  EXPECT_EQ(world.fences.completed(kA), 1u);
  EXPECT_EQ(world.fences.record_count(), 1u);
}

TEST(Trim, OneOwnerFenceServesManyFrees) {
  World world;
  Address blocks[10];
  for (Address& block : blocks) block = world.allocate(4 * kMiB, kA);
  for (std::size_t i = 0; i < 10; i += 2) world.free(blocks[i]);
  EXPECT_EQ(world.trim(), 20 * kMiB);
  EXPECT_EQ(world.fences.record_count(), 1u);
}

TEST(Trim, TakesNothingThatCannotBeAskedAbout) {
  World world;
  const Address block = world.allocate(4 * kMiB, kA);
  world.queue(kA);
  world.free(block);
  world.fences.set_capturing(true);
  EXPECT_EQ(world.trim(), 0u);
  world.fences.set_capturing(false);
  EXPECT_EQ(world.trim(), 4 * kMiB);
}

TEST(Trim, AboveHighWaterActsOnFree) {
  World world(world_with({.trim = TrimMode::kAboveHighWater, .high_water_bytes = 8 * kMiB}));
  const Address small = world.allocate(4 * kMiB, kA);
  const Address large = world.allocate(32 * kMiB, kA);
  world.free(large);
  EXPECT_EQ(world.reserved(), 8 * kMiB);
  world.free(small);
  EXPECT_EQ(world.reserved(), 8 * kMiB);
}

TEST(Trim, AboveHighWaterNeverMakesAFreeWait) {
  World world(world_with({.trim = TrimMode::kAboveHighWater, .high_water_bytes = 0}));
  const Address block = world.allocate(32 * kMiB, kA);
  world.queue(kA);
  world.free(block);
  EXPECT_EQ(world.fences.wait_count(), 0u);
  EXPECT_EQ(world.reserved(), 32 * kMiB);
  world.complete(kA);
  world.free(world.allocate(2 * kMiB, kA));
  EXPECT_LT(world.reserved(), 32 * kMiB);
}

TEST(Trim, IdleGivesBackWhatNobodyTouchedSinceTheTickBefore) {
  World world(world_with({.trim = TrimMode::kIdle}));
  world.free(world.allocate(32 * kMiB, kA));
  EXPECT_EQ(world->tick(), 0u) << "free since a moment ago only";
  EXPECT_EQ(world.reserved(), 32 * kMiB);
  EXPECT_EQ(world->tick(), 32 * kMiB);
  EXPECT_EQ(world.reserved(), 0u);
}

TEST(Trim, IdleKeepsWhatIsUsedBetweenTicks) {
  World world(world_with({.trim = TrimMode::kIdle}));
  world.free(world.allocate(32 * kMiB, kA));
  for (int tick = 0; tick < 5; ++tick) {
    world->tick();
    world.free(world.allocate(32 * kMiB, kA));
  }
  EXPECT_EQ(world.reserved(), 32 * kMiB);
}

TEST(Trim, KeepsAPreallocation) {
  World world(world_with({.strategy = Strategy::kPreallocate, .preallocate = bytes(64 * kMiB)}));
  const Address first = world.allocate(2 * kMiB, kA);
  EXPECT_EQ(world.reserved(), 64 * kMiB);
  world.free(world.allocate(100 * kMiB, kA));
  world.free(first);
  EXPECT_GT(world.reserved(), 100 * kMiB);
  world.trim();
  EXPECT_EQ(world.reserved(), 64 * kMiB);
}

TEST(Trim, GivesWholeRangesBackToAWholeOnlySource) {
  support::WorldOptions options;
  options.source.whole_only = true;
  World world(options);
  const Address first = world.allocate(8 * kMiB, kA);
  const Address second = world.allocate(8 * kMiB, kA);
  world.free(first);
  EXPECT_GE(world.trim(), 8 * kMiB);
  world.free(second);
  world.trim();
  EXPECT_EQ(world.source.held_bytes(), 0u) << "a segment's memory goes with its address space";
}

}  // namespace
}  // namespace cistern
