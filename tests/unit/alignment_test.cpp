#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "support/random.hpp"
#include "support/world.hpp"

namespace cistern {
namespace {

using support::Random;
using support::World;
using support::world_with;

constexpr StreamId kA{1};

TEST(Alignment, IsAtLeastTheLeastBlock) {
  World world(world_with({.least_block_bytes = 64}));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.allocate(1, kA) % 64, 0u);
}

TEST(Alignment, OfARequestIsMetAfterAnOddFiller) {
  World world(world_with({.least_block_bytes = 64}));
  for (std::size_t alignment = 32; alignment <= 2 * kMiB; alignment *= 2) {
    world.allocate(64, kA);
    const auto result = world->allocate({.bytes = 100, .alignment = alignment, .stream = kA});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->address % alignment, 0u) << alignment;
  }
}

TEST(Alignment, LeavesTheGapInFrontUsable) {
  World world(world_with({.least_block_bytes = 64}));
  const Address filler = world.allocate(64, kA);
  const auto aligned = world->allocate({.bytes = 4096, .alignment = 64 * kKiB, .stream = kA});
  ASSERT_TRUE(aligned);
  const Address between = world.allocate(4096, kA);
  EXPECT_GT(between, filler);
  EXPECT_LT(between, aligned->address);
}

TEST(Alignment, ManySizesAndAlignmentsAllFitAndAreMet) {
  World world(world_with({.least_block_bytes = 64}));
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    std::vector<Address> live;
    for (int i = 0; i < 350; ++i) {
      const std::size_t alignment = std::size_t{1} << random.below(13);
      const auto result =
          world->allocate({.bytes = random.log_uniform(1, 32 * kKiB), .alignment = alignment, .stream = kA});
      ASSERT_TRUE(result);
      ASSERT_EQ(result->address % alignment, 0u);
      live.push_back(result->address);
    }
    while (!live.empty()) {
      std::swap(live[random.below(live.size())], live.back());
      world.free(live.back());
      live.pop_back();
    }
  }
  EXPECT_LE(world->stats().reserved.peak, 16 * kMiB);
}

TEST(Alignment, OfAWholeGranuleIsMetByASmallBlock) {
  World world;
  const auto result = world->allocate({.bytes = 512, .alignment = 2 * kMiB, .stream = kA});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->address % (2 * kMiB), 0u);
}

}  // namespace
}  // namespace cistern
