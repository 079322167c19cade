#include "cistern/core/growth_policy.hpp"

#include <gtest/gtest.h>

#include "cistern/base/units.hpp"

namespace cistern {
namespace {

Options with(Strategy strategy) {
  Options options;
  options.strategy = strategy;
  return options;
}

TEST(GrowthWish, IsNothingUnderGrowthAndAsMuchAgainUnderGeometric) {
  GrowthFacts facts;
  facts.held_of_kind = 6 * kMiB;
  EXPECT_EQ(growth_wish_bytes(with(Strategy::kGrowth), facts), 0u);
  EXPECT_EQ(growth_wish_bytes(with(Strategy::kGeometric), facts), 6 * kMiB);
}

TEST(GrowthWish, IsTheWholePreallocationOnce) {
  Options options = with(Strategy::kPreallocate);
  options.headroom_bytes = 10 * kMiB;
  GrowthFacts facts;
  facts.limit = 500 * kMiB;
  facts.available = 200 * kMiB;
  facts.capacity = kGiB;
  EXPECT_EQ(growth_wish_bytes(options, facts), 190 * kMiB);
  facts.limit = 100 * kMiB;
  EXPECT_EQ(growth_wish_bytes(options, facts), 100 * kMiB);
  options.preallocate.share = 0.25;
  EXPECT_EQ(growth_wish_bytes(options, facts), 256 * kMiB);
  facts.preallocated = 256 * kMiB;
  EXPECT_EQ(growth_wish_bytes(options, facts), 0u);
}

TEST(RemapPolicy, CreatesBelowTheSlackAndRemapsWhatLiesAboveIt) {
  RemapPolicy policy(with(Strategy::kGrowth));
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, kMiB, 100 * kMiB), 0u);
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, 3 * kMiB, 100 * kMiB), 2 * kMiB);
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, 50 * kMiB, 100 * kMiB), 4 * kMiB);
}

TEST(RemapPolicy, TurnsADemandThatComesBackIntoACreate) {
  RemapPolicy policy(with(Strategy::kGrowth));
  const std::size_t peak = 10 * kMiB;
  std::size_t remapped = 0;
  for (std::size_t wanted = policy.remap_bytes(3 * kMiB, peak, peak); wanted != 0;
       wanted = policy.remap_bytes(3 * kMiB, peak, peak)) {
    policy.remapped(wanted);
    remapped += wanted;
    ASSERT_LE(remapped, 20 * kMiB);
  }
  EXPECT_EQ(remapped, 18 * kMiB);
  EXPECT_EQ(policy.remap_bytes(3 * kMiB, peak, peak), 3 * kMiB) << "after the create it starts again";
}

TEST(RemapPolicy, NeverRemapsWithFullSlack) {
  Options options;
  options.remap_slack = 1.0;
  EXPECT_EQ(RemapPolicy(options).remap_bytes(4 * kMiB, kGiB, kMiB), 0u);
}

}  // namespace
}  // namespace cistern
