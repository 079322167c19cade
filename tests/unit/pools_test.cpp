// Pools: limits of their own, held memory that stays, retired numbers that come back.
#include <gtest/gtest.h>

#include <stdexcept>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

TEST(Pool, HasALimitOfItsOwnBelowTheDevices) {
  World world(world_with({.limit = bytes(16 * kMiB)}));
  const PoolId pool = world->create_pool({4 * kMiB});
  EXPECT_EQ(world->limit_bytes(pool), 4 * kMiB);
  const Address block = world.allocate(4 * kMiB, kA, pool);
  const auto refused = world.try_allocate(2 * kMiB, kA, pool);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().limit_bytes, 4 * kMiB);
  world.allocate(12 * kMiB, kA);
  ASSERT_TRUE(world->set_limit(6 * kMiB, pool));
  EXPECT_FALSE(world.try_allocate(2 * kMiB, kA, pool)) << "the device is full";
  world.free(block);
}

TEST(Pool, DoesNotTakeBlocksOfAnother) {
  World world;
  const PoolId pool = world->create_pool();
  const Address block = world.allocate(2 * kMiB, kA);
  world.free(block);
  EXPECT_NE(world.allocate(2 * kMiB, kA, pool), block);
}

TEST(Pool, UnderTheDevicesLimitGetsTheIdleMemoryOfOthers) {
  World world(world_with({.limit = bytes(8 * kMiB)}));
  const PoolId pool = world->create_pool();
  world.free(world.allocate(8 * kMiB, kA));
  world.allocate(8 * kMiB, kB, pool);
  EXPECT_EQ(world.reserved(), 8 * kMiB);
}

TEST(Pool, FullByItsOwnLimitTakesNothingFromOthers) {
  World world(world_with({.remap_slack = 1.0}));
  const PoolId pool = world->create_pool({4 * kMiB});
  world.free(world.allocate(8 * kMiB, kA));
  EXPECT_FALSE(world.try_allocate(8 * kMiB, kA, pool));
  world.allocate(4 * kMiB, kA, pool);
  EXPECT_FALSE(world.try_allocate(2 * kMiB, kA, pool));
  EXPECT_EQ(world.reserved(), 12 * kMiB) << "idle memory elsewhere could not have helped";
}

TEST(Pool, LimitCanBeClearedAndLowered) {
  World world;
  const PoolId pool = world->create_pool({4 * kMiB});
  world->clear_limit(pool);
  const Address block = world.allocate(32 * kMiB, kA, pool);
  EXPECT_FALSE(world->set_limit(8 * kMiB, pool));
  world.free(block);
  EXPECT_TRUE(world->set_limit(8 * kMiB, pool));
  EXPECT_LE(world.reserved(), 8 * kMiB);
}

TEST(HeldPool, KeepsItsMemoryWhateverAsks) {
  World world(world_with({.limit = bytes(8 * kMiB)}));
  const PoolId pool = world->create_pool();
  world->hold_pool(pool);
  world->hold_pool(pool);
  world.free(world.allocate(8 * kMiB, kA, pool));
  EXPECT_EQ(world.trim(), 0u);
  EXPECT_EQ(world->trim_pool(pool), 0u);
  world->tick();
  EXPECT_EQ(world->tick(), 0u);
  EXPECT_FALSE(world.try_allocate(2 * kMiB, kA)) << "a miss elsewhere takes nothing from it";
  EXPECT_FALSE(world->set_limit(4 * kMiB));
  world->release_pool(pool);
  EXPECT_EQ(world.trim(), 0u) << "held once more";
  world->release_pool(pool);
  EXPECT_EQ(world->trim_pool(pool), 8 * kMiB);
  EXPECT_EQ(world.reserved(), 0u);
}

TEST(TrimPool, LeavesTheOthersAlone) {
  World world;
  const PoolId pool = world->create_pool();
  world.free(world.allocate(4 * kMiB, kA, pool));
  world.free(world.allocate(8 * kMiB, kA));
  EXPECT_EQ(world->trim_pool(pool), 4 * kMiB);
  EXPECT_EQ(world.reserved(), 8 * kMiB);
}

TEST(RetiredPool, GivesItsNumberOutAgainOnlyWhenNothingOfItIsLeft) {
  World world;
  const PoolId pool = world->create_pool({.limit_bytes = 4 * kMiB});
  const Address block = world.allocate(2 * kMiB, kA, pool);
  world->retire_pool(pool);
  EXPECT_NE(world->create_pool(), pool) << "a block lives in it";
  world.free(block);
  EXPECT_NE(world->create_pool(), pool) << "its memory was not given back";
  world.trim();
  EXPECT_EQ(world->create_pool(), pool);
  EXPECT_EQ(world->limit_bytes(pool), kNoLimit) << "and is as new";
  world.allocate(8 * kMiB, kB, pool);
}

TEST(RetiredPool, MakesRoomForAnyNumberOfPoolsOneAfterTheOther) {
  World world;
  for (int i = 0; i < 1000; ++i) {
    const PoolId pool = world->create_pool();
    world.free(world.allocate(2 * kMiB, kA, pool));
    world->retire_pool(pool);
    world->trim_pool(pool);
  }
  EXPECT_EQ(world.reserved(), 0u);
}

TEST(Pools, BeyondTheMostAtOnceAreRefused) {
  World world;
  for (std::size_t i = 0; i < CachingAllocator::kMaxPools; ++i) world->create_pool();
  EXPECT_THROW(world->create_pool(), std::length_error);
}

TEST(PoolWithOwnGranules, LetsNoTwoAllocationsShareOne) {
  World world;
  const PoolId pool = world->create_pool({.own_granules = true});
  const std::size_t granule = world->source_traits().granule_bytes;
  for (int i = 0; i < 3; ++i) {
    const auto allocation = world.try_allocate(512, kA, pool);
    ASSERT_TRUE(allocation);
    EXPECT_EQ(allocation->address % granule, 0u);
    EXPECT_EQ(allocation->granted_bytes, granule);
  }
  EXPECT_EQ(world.reserved(), 3 * granule);
  EXPECT_EQ(world->stats().requested.current, 3 * 512u);
}

TEST(FindRange, NamesTheRangeAndItsOwnerOfAnyAddressInside) {
  World world;
  const PoolId pool = world->create_pool();
  const Address block = world.allocate(4 * kMiB, kB, pool);
  const auto range = world->find_range(block + 5);
  ASSERT_TRUE(range);
  EXPECT_LE(range->range.address, block);
  EXPECT_GE(range->range.address + range->range.bytes, block + 4 * kMiB);
  EXPECT_EQ(range->stream, kB);
  EXPECT_EQ(range->pool, pool);
  EXPECT_FALSE(world->find_range(1));
  const auto live = world->find(block);
  ASSERT_TRUE(live);
  EXPECT_EQ(live->requested_bytes, 4 * kMiB);
  EXPECT_EQ(live->stream, kB);
  EXPECT_EQ(live->pool, pool);
}

TEST(SharedBudget, CountsTheMemoryOfTwoAllocatorsTogether) {
  World world(world_with({.limit = bytes(8 * kMiB)}));
  SimulatedSource source({.granule_bytes = 2 * kMiB, .capacity_bytes = kGiB});
  CachingAllocator other({}, source, nullptr, {}, &world->budget());
  const auto block = other.allocate({.bytes = 6 * kMiB});
  ASSERT_TRUE(block);
  EXPECT_FALSE(world.try_allocate(4 * kMiB, kA));
  other.free(block->address);
  other.trim();
  world.allocate(8 * kMiB, kA);
}

}  // namespace
}  // namespace cistern
