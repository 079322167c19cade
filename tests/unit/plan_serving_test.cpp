// The strategy plan: what is expected lies where the plan says, what is not is served all the same.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/host_allocations.hpp"
#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::WorldOptions;

constexpr std::size_t kGranule = 2 * kMiB;

/// One lane of stream 0: 3 MiB at the bottom, 1 MiB and 4 KiB above, 2 MiB where the 3 MiB were.
Plan small_plan() {
  PlanLane lane;
  lane.height_bytes = 4 * kMiB + 4096;
  lane.requests = {{3 * kMiB, 0}, {kMiB, 3 * kMiB}, {4096, 4 * kMiB}, {2 * kMiB, 0}};
  Plan plan;
  plan.lanes.push_back(lane);
  return plan;
}

WorldOptions planned(Plan plan = small_plan()) {
  Options options;
  options.strategy = Strategy::kPlan;
  options.plan = std::make_shared<const Plan>(std::move(plan));
  return support::world_with(options);
}

TEST(PlanServing, ExpectedRequestsGetTheirPlacesAndReserveTheHeightInGranules) {
  World world(planned());
  const Address base = world.allocate(3 * kMiB);
  EXPECT_EQ(world.allocate(kMiB), base + 3 * kMiB);
  EXPECT_EQ(world.allocate(4096), base + 4 * kMiB) << "small blocks too";
  world.free(base);
  EXPECT_EQ(world.allocate(2 * kMiB), base);
  EXPECT_EQ(world->stats().reserved.peak, 3 * kGranule);
}

TEST(PlanServing, TheNextRoundTakesTheSamePlacesWithoutASourceCall) {
  World world(planned());
  const auto round = [&] {
    std::vector<Address> taken{world.allocate(3 * kMiB), world.allocate(kMiB), world.allocate(4096)};
    world.free(taken[0]);
    taken[0] = world.allocate(2 * kMiB);
    for (const Address address : taken) world.free(address);
    return taken;
  };
  const std::vector<Address> first = round();
  const std::uint64_t calls = world.source_calls();
  EXPECT_EQ(round(), first);
  EXPECT_EQ(round(), first);
  EXPECT_EQ(world.source_calls(), calls);
}

TEST(PlanServing, MemoryComesAsItIsNeeded) {
  World world(planned());
  world.allocate(3 * kMiB);
  EXPECT_EQ(world.reserved(), 2 * kGranule);
}

TEST(PlanServing, ASegmentComesWhole) {
  WorldOptions options = planned();
  options.source.whole_only = true;
  World world(options);
  world.allocate(3 * kMiB);
  EXPECT_EQ(world.reserved(), 3 * kGranule);
  EXPECT_EQ(world.source_calls(), 2u) << "reserve and commit";
}

TEST(PlanServing, APlaceThatIsTakenIsLeftAlone) {
  World world(planned());
  const Address base = world.allocate(3 * kMiB);
  world.allocate(kMiB);
  world.allocate(4096);
  EXPECT_NE(world.allocate(2 * kMiB), base) << "its place was not freed";
}

TEST(PlanServing, APlaceThatIsHalfTakenIsLeftAlone) {
  Plan plan = small_plan();
  plan.lanes[0].requests = {{kMiB, 0}, {kMiB, kMiB}, {2 * kMiB, 0}};
  World world(planned(plan));
  const Address base = world.allocate(kMiB);
  world.allocate(kMiB);
  world.free(base);
  const Address third = world.allocate(2 * kMiB);
  EXPECT_TRUE(third >= base + 2 * kMiB || third + 2 * kMiB <= base);
}

TEST(PlanServing, APendingBlockKeepsItsPlace) {
  World world(planned());
  const Address base = world.allocate(3 * kMiB);
  world.allocate(kMiB);
  world.allocate(4096);
  world.queue(StreamId{7});
  world->record_stream(base, StreamId{7});
  EXPECT_EQ(world.free(base), FreeOutcome::kPending);
  EXPECT_NE(world.allocate(2 * kMiB), base);
}

TEST(PlanServing, WhatIsNotExpectedIsServedAndTheRestIsStillAsPlanned) {
  World world(planned());
  const Address base = world.allocate(3 * kMiB);
  world.allocate(7 * kMiB);
  EXPECT_EQ(world.allocate(kMiB), base + 3 * kMiB);
}

TEST(PlanServing, StreamsWithoutALaneGrowOnDemand) {
  World world(planned());
  const Address base = world.allocate(3 * kMiB);
  const Address other = world.allocate(kMiB, StreamId{1});
  EXPECT_TRUE(other < base || other >= base + 4 * kMiB + 4096);
  EXPECT_EQ(world.free(other), FreeOutcome::kFreed);
}

TEST(PlanServing, AfterATrimThePlacesGetTheirMemoryBack) {
  World world(planned());
  const Address base = world.allocate(3 * kMiB);
  world.free(base);
  world.trim();
  EXPECT_EQ(world.reserved(), 0u);
  world.allocate(kMiB);
  EXPECT_EQ(world.reserved(), kGranule) << "of the granules under its place";
}

TEST(PlanServing, UnderALimitBelowTheHeightItServesWhatFits) {
  WorldOptions options = planned();
  options.allocator.limit = bytes(2 * kGranule);
  World world(options);
  const Address base = world.allocate(3 * kMiB);
  world.allocate(kMiB);
  EXPECT_FALSE(world.try_allocate(4096));
  world.free(base);
  EXPECT_NE(world.allocate(2 * kMiB), 0u);
}

TEST(PlanServing, AnAlignmentThatThePlaceMissesIsMetElsewhere) {
  World world(planned());
  world.allocate(3 * kMiB);
  const auto aligned = world->allocate({.bytes = kMiB, .alignment = 2 * kMiB});
  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->address % (2 * kMiB), 0u);
}

TEST(PlanServing, AnOversizedPlanIsNoReasonToFail) {
  Plan plan = small_plan();
  plan.lanes[0].height_bytes = 8 * kGiB;
  plan.lanes[0].requests[0].offset = 7 * kGiB;
  for (const bool whole_only : {false, true}) {
    WorldOptions options = planned(plan);
    options.source.whole_only = whole_only;
    World world(options);
    EXPECT_NE(world.allocate(3 * kMiB), 0u);
    EXPECT_NE(world.allocate(kMiB), 0u);
  }
}

TEST(PlanServing, AHitTakesNoHostMemory) {
  const WorldOptions options = planned();
  SimulatedSource source(options.source);
  CachingAllocator allocator(options.allocator, source);
  const auto round = [&] {
    const Address base = allocator.allocate({.bytes = 3 * kMiB})->address;
    const Address above = allocator.allocate({.bytes = kMiB})->address;
    const Address small = allocator.allocate({.bytes = 4096})->address;
    allocator.free(base);
    const Address again = allocator.allocate({.bytes = 2 * kMiB})->address;
    for (const Address address : {above, small, again}) allocator.free(address);
  };
  round();
  const std::uint64_t before = support::host_allocation_count();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(support::host_allocation_count(), before);
}

TEST(PlanValue, SaysWhatIsWrong) {
  EXPECT_EQ(what_is_wrong(small_plan()).value_or(""), "");
  const auto wrong_after = [](auto change) {
    Plan plan = small_plan();
    change(plan);
    return what_is_wrong(plan).value_or("nothing");
  };
  EXPECT_EQ(wrong_after([](Plan& p) { p.unit_bytes = 100; }),
            "the unit of 100 bytes is no power of two up to 1 GiB");
  EXPECT_EQ(wrong_after([](Plan& p) { p.lanes.push_back(p.lanes[0]); }),
            "lane 1: stream and pool are those of lane 0");
  EXPECT_EQ(wrong_after([](Plan& p) { p.lanes[0].requests[2].bytes = 0; }), "lane 0: request 2 asks for 0 bytes");
  EXPECT_EQ(wrong_after([](Plan& p) { p.lanes[0].requests[1].offset += 100; }),
            "lane 0: request 1 lies at 3145828, no multiple of 512");
  EXPECT_EQ(wrong_after([](Plan& p) { p.lanes[0].height_bytes = 4 * kMiB; }),
            "lane 0: request 2 ends above the height of 4194304");
  EXPECT_EQ(wrong_after([](Plan& p) { p.lanes[0].repeat_from = 5; }),
            "lane 0: it repeats from behind its last request");
  EXPECT_EQ(wrong_after([](Plan& p) { p.lanes[0].height_bytes = ~std::size_t{0}; }),
            "lane 0: its height is above 2^60");
}

}  // namespace
}  // namespace cistern
