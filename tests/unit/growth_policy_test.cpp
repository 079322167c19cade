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

SourceTraits small_granules() {
  SourceTraits traits;
  traits.granule_bytes = kMiB;
  return traits;
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

TEST(RemapPolicy, CreatesUpToItsSlackAboveThePeakAndRemapsWhatLiesAbove) {
  RemapPolicy policy(with(Strategy::kGrowth), small_granules(), nullptr);
  policy.saw_active(400 * kMiB);
  policy.saw_active(50 * kMiB);
  const std::size_t free_of_charge = 412 * kMiB;  // 1 % and eight granules
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, free_of_charge), 0u);
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, free_of_charge + 2 * kMiB), 2 * kMiB);
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, 2 * free_of_charge), 4 * kMiB);
}

TEST(RemapPolicy, LeavesASmallJobLessThanEightGranules) {
  RemapPolicy policy(with(Strategy::kGrowth), small_granules(), nullptr);
  policy.saw_active(32 * kMiB);
  EXPECT_EQ(policy.remap_bytes(4 * kMiB, 34 * kMiB), 0u);
  EXPECT_GT(policy.remap_bytes(4 * kMiB, 35 * kMiB), 0u);
}

TEST(RemapPolicy, TurnsADemandThatComesBackIntoACreate) {
  RemapPolicy policy(with(Strategy::kGrowth), small_granules(), nullptr);
  policy.saw_active(10 * kMiB);
  std::size_t remapped = 0;
  for (std::size_t wanted = policy.remap_bytes(3 * kMiB, kGiB); wanted != 0; wanted = policy.remap_bytes(3 * kMiB, kGiB)) {
    policy.remapped(wanted);
    remapped += wanted;
    ASSERT_LE(remapped, 80 * kMiB);
  }
  EXPECT_EQ(remapped, 78 * kMiB);
  EXPECT_EQ(policy.remap_bytes(3 * kMiB, kGiB), 3 * kMiB) << "after the create it starts again";
}

TEST(RemapPolicy, NeverRemapsWithFullSlack) {
  Options options;
  options.remap_slack = 1.0;
  EXPECT_EQ(RemapPolicy(options, small_granules(), nullptr).remap_bytes(4 * kMiB, kGiB), 0u);
}

}  // namespace
}  // namespace cistern
