#include "cistern/planning/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cistern/planning/heuristics.hpp"
#include "support/placement_check.hpp"
#include "support/random.hpp"

namespace cistern::planning {
namespace {

using support::broken_placement;

std::vector<Buffer> random_buffers(std::size_t count, std::uint64_t seed) {
  support::Random random(seed);
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t lower = random.below(2 * count);
    buffers.push_back({lower, lower + random.log_uniform(1, count), 512 * random.log_uniform(1, 4000)});
  }
  return buffers;
}

std::uint64_t most_alive(const std::vector<Buffer>& buffers) {
  std::uint64_t most = 0;
  for (const Buffer& moment : buffers) {
    std::uint64_t alive = 0;
    for (const Buffer& other : buffers) {
      if (other.lower <= moment.lower && moment.lower < other.upper) alive += other.size;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(Placement, TheLowerBoundIsWhatIsAliveAtTheFullestMoment) {
  EXPECT_EQ(lower_bound({}), 0u);
  EXPECT_EQ(lower_bound(std::vector<Buffer>{{0, 5, 10}, {5, 9, 10}}), 10u) << "one ends as the other begins";
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Buffer> buffers = random_buffers(50, seed);
    EXPECT_EQ(lower_bound(buffers), most_alive(buffers)) << "seed " << seed;
  }
}

TEST(Placement, NoHeuristicLetsTwoBuffersOverlap) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const std::vector<Buffer> buffers = random_buffers(seed * 20, seed);
    for (const Preference& preference :
         {Preference{}, Preference{.life_power = 0.0, .size_power = 1.0}, Preference{.noise = 0.3, .seed = seed}}) {
      const std::vector<std::uint32_t> order = order_by(buffers, preference);
      EXPECT_EQ(broken_placement(buffers, first_fit(buffers, order)).value_or(""), "") << "seed " << seed;
      EXPECT_EQ(broken_placement(buffers, lowest_line(buffers, order)).value_or(""), "") << "seed " << seed;
    }
  }
}

TEST(Placement, AnOrderNamesEachBufferOnce) {
  std::vector<std::uint32_t> order = order_by(random_buffers(1000, 3), {.size_power = 0.5, .noise = 0.1, .seed = 9});
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(order, all);
}

TEST(Placement, IsAsLowAsTheFullestMomentWhereOnePassIsNot) {
  // By size the first two go to the bottom and the third finds no room below 7; the lower bound is 6.
  const std::vector<Buffer> buffers = {{0, 2, 3}, {3, 5, 3}, {1, 4, 2}, {0, 1, 3}, {4, 5, 3}, {2, 3, 4}};
  const Placement placement = place(buffers);
  EXPECT_EQ(broken_placement(buffers, placement).value_or(""), "");
  EXPECT_EQ(placement.height, lower_bound(buffers));
}

TEST(Placement, NothingIsPlacedAtNoHeight) {
  const Placement placement = place({});
  EXPECT_EQ(placement.height, 0u);
  EXPECT_TRUE(placement.offsets.empty());
}

TEST(Placement, WithoutTimeItIsStillThere) {
  const std::vector<Buffer> buffers = random_buffers(500, 5);
  EXPECT_EQ(broken_placement(buffers, place(buffers, {.seconds = 0.0})).value_or(""), "");
}

TEST(Placement, TwentyThousandBuffersArePlaced) {
  const std::vector<Buffer> buffers = random_buffers(20'000, 6);
  const Placement placement = place(buffers, {.seconds = 0.0});
  EXPECT_EQ(broken_placement(buffers, placement).value_or(""), "");
  EXPECT_LE(placement.height, lower_bound(buffers) + lower_bound(buffers) / 5);
}

TEST(PlacementCheck, NoticesAnOverlapAndAWrongHeight) {
  const std::vector<Buffer> buffers = {{0, 10, 4}, {5, 15, 4}, {10, 20, 4}};
  EXPECT_FALSE(broken_placement(buffers, {{0, 4, 0}, 8}));
  EXPECT_TRUE(broken_placement(buffers, {{0, 3, 0}, 7}));
  EXPECT_TRUE(broken_placement(buffers, {{0, 4, 4}, 8}));
  EXPECT_TRUE(broken_placement(buffers, {{0, 4, 0}, 9}));
  EXPECT_TRUE(broken_placement(buffers, {{0, 4}, 8}));
}

}  // namespace
}  // namespace cistern::planning
