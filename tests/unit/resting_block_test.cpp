// A block given back right after it was taken rests: free to every eye, and taken again as it lies.
#include <gtest/gtest.h>

#include <vector>

#include "support/random.hpp"
#include "support/world.hpp"

namespace cistern {
namespace {

using support::World;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

/// Takes a block that will rest when it is freed: the first take makes a new peak, so the ledger sees to it.
Address take(World& world, std::size_t bytes) {
  world.free(world.allocate(bytes, kA));
  return world.allocate(bytes, kA);
}

TEST(RestingBlock, IsTakenAgainByTheSameNeed) {
  World world;
  world.allocate(kMiB, kA);
  const Address block = take(world, 4096);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world.free(block), FreeOutcome::kFreed);
    EXPECT_EQ(world.allocate(4000, kA), block);
    EXPECT_EQ(world->find(block)->requested_bytes, 4000u);
  }
}

TEST(RestingBlock, IsFreeAndJoinedToWhoeverLooks) {
  World world;
  world.free(take(world, 4096));
  EXPECT_EQ(world->stats().largest_free_bytes, 2 * kMiB);
  EXPECT_EQ(world->stats().inactive_split.current, 0u);
  world.free(take(world, 4096));
  const std::vector<RangeInfo> ranges = world->snapshot();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].blocks[0].state, BlockState::kFree);
  EXPECT_EQ(ranges[0].blocks[0].bytes, 2 * kMiB);
}

TEST(RestingBlock, CountsAsFreed) {
  World world;
  for (int i = 0; i < 10; ++i) world.free(world.allocate(1000, kA));
  const Stats stats = world->stats();
  EXPECT_EQ(stats.requested.current, 0u);
  EXPECT_EQ(stats.requested.peak, 1000u);
  EXPECT_EQ(stats.requested.allocated, 10'000u);
  EXPECT_EQ(stats.allocated.freed, 10'240u);
  EXPECT_EQ(stats.allocations.allocated, 10u);
  EXPECT_EQ(stats.allocations.freed, 10u);
  EXPECT_EQ(stats.inactive_split.peak, 2 * kMiB - 1024);
}

TEST(RestingBlock, IsNotLive) {
  World world;
  world.allocate(512, kA);
  const Address block = take(world, 4096);
  world.free(block);
  EXPECT_FALSE(world->record_stream(block, kB));
  EXPECT_EQ(take(world, 4096), block);
  world.free(block);
  EXPECT_EQ(world.free(block), FreeOutcome::kNotLive);
  EXPECT_FALSE(world->find(block));
}

TEST(RestingBlock, GivesWayToAnotherSize) {
  World world;
  world.allocate(512, kA);
  const Address block = take(world, 4096);
  world.free(block);
  EXPECT_EQ(world.allocate(8192, kA), block) << "joined with what is free behind it";
}

TEST(RestingBlock, GivesWayToAnotherAlignment) {
  World world;
  world.allocate(512, kA);
  world.free(take(world, 512));
  const auto aligned = world->allocate({.bytes = 512, .alignment = 4096, .stream = kA});
  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->address % 4096, 0u);
}

TEST(RestingBlock, GoesBackWithATrim) {
  World world;
  world.free(take(world, 4 * kMiB));
  EXPECT_EQ(world.trim(), 4 * kMiB);
  EXPECT_EQ(world.reserved(), 0u);
}

TEST(RestingBlock, GoesBackWithATrimWhereThereIsNoStreamOrder) {
  World world({.streams = support::Streams::kNone});
  world.free(take(world, 4 * kMiB));
  EXPECT_EQ(world.trim(), 4 * kMiB);
  EXPECT_EQ(world.reserved(), 0u);
}

TEST(RestingBlock, DoesNotComeFromABlockThatAnotherStreamUsed) {
  World world;
  const Address block = take(world, 4096);
  world->record_stream(block, kB);
  world.queue(kB);
  EXPECT_EQ(world.free(block), FreeOutcome::kPending);
  EXPECT_NE(world.allocate(4096, kA), block);
}

/// A seeded program that mostly frees what it took last, under eyes that look after every step, or not at all.
std::vector<Address> placements(std::uint64_t seed, bool looking) {
  World world;
  support::Random random(seed);
  std::vector<Address> live;
  std::vector<Address> placed;
  for (int step = 0; step < 1000; ++step) {
    if (!live.empty() && random.below(100) < 48) {
      const std::size_t victim = random.below(4) != 0 ? live.size() - 1 : random.below(live.size());
      world.free(live[victim]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      const std::size_t bytes = random.below(2) != 0 ? 4096 << random.below(9) : random.log_uniform(1, 8 * kMiB);
      const auto taken = world->allocate(
          {.bytes = bytes, .alignment = random.below(8) != 0 ? 1u : 8192u, .stream = StreamId{random.below(2)}});
      if (!taken) continue;
      live.push_back(taken->address);
      placed.push_back(taken->address);
    }
    if (looking) world->audit();
  }
  return placed;
}

TEST(RestingBlock, MovesNoBlock) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(placements(seed, true), placements(seed, false)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace cistern
