#include "cistern/core/plan_cursor.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/random.hpp"

namespace cistern {
namespace {

/// The n-th request lies at offset n * 4096, so that its place is n.
PlanLane lane_of(const std::vector<std::size_t>& sizes, std::size_t repeat_from) {
  PlanLane lane;
  lane.height_bytes = (sizes.size() + 1) * 4096;
  lane.repeat_from = repeat_from;
  for (const std::size_t size : sizes) lane.requests.push_back({size, lane.requests.size() * 4096});
  return lane;
}

/// Of 25 kinds, as few as real programs have.
std::vector<std::size_t> random_sizes(std::size_t count) {
  support::Random random(count);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < count; ++i) sizes.push_back(512 * (1 + random.below(25)));
  return sizes;
}

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
std::uint32_t next(PlanCursor& cursor, std::size_t bytes) { return cursor.next(bytes).value_or(kNowhere); }

TEST(PlanCursor, GivesThePlacesInOrderAndThenRepeatsTheTail) {
  PlanCursor cursor(lane_of({512, 1024, 1536, 2048}, 2), 512);
  for (const std::uint32_t place : {0u, 1u, 2u, 3u, 2u, 3u, 2u}) EXPECT_EQ(next(cursor, 512 * (place + 1)), place);
}

TEST(PlanCursor, ComparesSizesAsTheAllocatorRoundsThem) {
  PlanCursor cursor(lane_of({100, 513}, 2), 512);
  EXPECT_EQ(next(cursor, 512), 0u);
  EXPECT_EQ(next(cursor, 1024), 1u);
}

TEST(PlanCursor, ExpectsNothingAfterTheEndButTheBeginning) {
  PlanCursor cursor(lane_of({512, 1024}, 2), 512);
  next(cursor, 512);
  next(cursor, 1024);
  EXPECT_EQ(next(cursor, 1024), kNowhere);
  EXPECT_EQ(next(cursor, 512), 0u);
  EXPECT_EQ(next(cursor, 1024), 1u);
}

TEST(PlanCursor, AnEmptyLaneExpectsNothing) {
  PlanCursor cursor(lane_of({}, 0), 512);
  EXPECT_EQ(next(cursor, 512), kNowhere);
  EXPECT_EQ(next(cursor, 512), kNowhere);
}

TEST(PlanCursor, ARequestPutInOrChangedHasNoPlaceAndTheNextOneHasItsOwn) {
  const std::vector<std::size_t> sizes = random_sizes(100);
  PlanCursor put_in(lane_of(sizes, 0), 512);
  PlanCursor changed(lane_of(sizes, 0), 512);
  for (std::size_t i = 0; i < 50; ++i) {
    next(put_in, sizes[i]);
    next(changed, sizes[i]);
  }
  EXPECT_EQ(next(put_in, 99 * 512), kNowhere);
  EXPECT_EQ(next(put_in, sizes[50]), 50u);
  EXPECT_EQ(next(changed, 99 * 512), kNowhere);
  EXPECT_EQ(next(changed, sizes[51]), 51u);
}

TEST(PlanCursor, FindsTheWayBackAfterManyRequestsWereDropped) {
  const std::vector<std::size_t> sizes = random_sizes(100);
  PlanCursor cursor(lane_of(sizes, 0), 512);
  for (std::size_t i = 0; i < 20; ++i) next(cursor, sizes[i]);
  for (std::size_t i = 40; i < 44; ++i) next(cursor, sizes[i]);  // twenty are missing
  for (std::size_t i = 44; i < 100; ++i) ASSERT_EQ(next(cursor, sizes[i]), i);
}

TEST(PlanCursor, FindsTheNextIterationAfterOneWasBrokenOff) {
  const std::vector<std::size_t> sizes = random_sizes(200);
  PlanCursor cursor(lane_of(sizes, 100), 512);
  for (std::size_t i = 0; i < 120; ++i) next(cursor, sizes[i]);
  for (std::size_t i = 100; i < 104; ++i) next(cursor, sizes[i]);
  for (std::size_t i = 104; i < 200; ++i) ASSERT_EQ(next(cursor, sizes[i]), i);
}

TEST(PlanCursor, FindsTheWayBackAfterAWholePhaseWasLeftOut) {
  const std::vector<std::size_t> sizes = random_sizes(1000);
  PlanCursor cursor(lane_of(sizes, 0), 512);
  for (std::size_t i = 0; i < 100; ++i) next(cursor, sizes[i]);
  for (std::size_t i = 700; i < 800; ++i) next(cursor, sizes[i]);
  for (std::size_t i = 800; i < 1000; ++i) ASSERT_EQ(next(cursor, sizes[i]), i);
}

TEST(PlanCursor, WithOneRequestInTwentyAlteredMostOthersGetTheirPlace) {
  support::Random random(1);
  const std::vector<std::size_t> sizes = random_sizes(5000);
  PlanCursor cursor(lane_of(sizes, 0), 512);
  std::size_t unaltered = 0;
  std::size_t right = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!random.one_in(20)) {
      ++unaltered;
      right += next(cursor, sizes[i]) == i ? 1 : 0;
      continue;
    }
    const std::uint64_t how = random.below(3);
    if (how == 0) continue;  // dropped
    next(cursor, 512 * (1 + random.below(25)));
    if (how == 1) next(cursor, sizes[i]);  // put in before; else changed
  }
  EXPECT_GT(right * 100, unaltered * 85) << right << " of " << unaltered;
}

}  // namespace
}  // namespace cistern
