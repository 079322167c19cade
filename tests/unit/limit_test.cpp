// Limits of the device and of pools, changed while running (I11).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;
using ::testing::HasSubstr;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

class LimitWithStrategy : public ::testing::TestWithParam<Strategy> {};

TEST_P(LimitWithStrategy, IsKeptAndCanBeLoweredAndRaised) {
  World world(world_with({.strategy = GetParam(), .limit = bytes(64 * kMiB)}));
  const Address block = world.allocate(16 * kMiB, kA);
  EXPECT_LE(world.reserved(), 64 * kMiB);
  EXPECT_FALSE(world.try_allocate(60 * kMiB, kA));
  ASSERT_TRUE(world->set_limit(32 * kMiB));
  EXPECT_LE(world.reserved(), 32 * kMiB);
  EXPECT_FALSE(world.try_allocate(20 * kMiB, kA));
  ASSERT_TRUE(world->set_limit(128 * kMiB));
  EXPECT_TRUE(world.try_allocate(60 * kMiB, kA));
  EXPECT_EQ(world->stats().limit_bytes, 128 * kMiB);
  world.free(block);
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, LimitWithStrategy,
                         ::testing::Values(Strategy::kGrowth, Strategy::kGeometric, Strategy::kPreallocate),
                         [](const auto& kind) { return std::string(strategy_name(kind.param)); });

TEST(Limit, OfAShareRefersToTheCapacity) {
  World world(world_with({.limit = Amount{0, 0.25}}));
  EXPECT_EQ(world->limit_bytes(), kGiB / 4);
}

TEST(Limit, IsNoneUnlessAsked) {
  World world;
  EXPECT_EQ(world->limit_bytes(), kNoLimit);
  EXPECT_EQ(world->stats().limit_bytes, ~std::uint64_t{0});
}

TEST(Limit, BelowWhatIsInUseIsRefusedAndKeepsTheOldOne) {
  World world(world_with({.limit = bytes(64 * kMiB)}));
  world.allocate(16 * kMiB, kA);
  const auto refused = world->set_limit(8 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FailureCode::kInUse);
  EXPECT_EQ(refused.error().sufficient_limit_bytes, 16 * kMiB);
  EXPECT_THAT(refused.error().explain(), HasSubstr("16 MiB in 1 block"));
  EXPECT_EQ(world->limit_bytes(), 64 * kMiB);
}

TEST(Limit, LoweringWaitsForStreamsThatStillUseIdleMemory) {
  World world;
  const Address block = world.allocate(16 * kMiB, kA);
  world.queue(kA);
  world.free(block);
  EXPECT_TRUE(world->set_limit(2 * kMiB));
  EXPECT_EQ(world.reserved(), 2 * kMiB);
  EXPECT_EQ(world.fences.completed(kA), 1u);
}

TEST(Limit, ThatEqualsTheNeedServesIt) {
  World world(world_with({.limit = bytes(16 * kMiB)}));
  world.allocate(16 * kMiB, kA);
  EXPECT_FALSE(world.try_allocate(1, kA));
}

TEST(Limit, ClearedLeavesTheDevice) {
  World world(world_with({.limit = bytes(4 * kMiB)}));
  EXPECT_FALSE(world.try_allocate(8 * kMiB, kA));
  world->clear_limit();
  EXPECT_TRUE(world.try_allocate(8 * kMiB, kA));
}

TEST(Limit, RequestsThatFitSucceedAfterOneThatDoesNot) {
  World world(world_with({.limit = bytes(4 * kMiB)}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(world.try_allocate(kGiB, kA));
    EXPECT_FALSE(world.try_allocate(~std::size_t{0}, kA));
    world.free(world.allocate(4 * kMiB, kA));
  }
}

}  // namespace
}  // namespace cistern
