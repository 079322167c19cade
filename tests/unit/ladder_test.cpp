// The rungs of allocate, one by one: which serves what, and what a hit costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "support/host_allocations.hpp"
#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

TEST(Ladder, FirstRequestGrowsAndTheSecondFits) {
  World world;
  const Address first = world.allocate(kMiB, kA);
  EXPECT_EQ(world.served(Rung::kGrow), 1u);
  world.free(first);
  EXPECT_EQ(world.allocate(kMiB, kA), first);
  EXPECT_EQ(world.served(Rung::kFit), 1u);
}

TEST(Ladder, AHitMakesNoSourceCallAndNoHostAllocation) {
  World world;
  world->stop_recording();
  std::vector<Address> live;
  for (int i = 0; i < 100; ++i)
    live.push_back(world.allocate(kMiB + 512u * static_cast<unsigned>(i % 7), kA));
  for (const Address address : live) world.free(address);
  const std::uint64_t calls = world.source_calls();
  const std::uint64_t before = support::host_allocation_count();
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 10; ++i) live[static_cast<std::size_t>(i)] = world.allocate(kMiB, kA);
    for (int i = 0; i < 10; ++i) world.free(live[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(support::host_allocation_count(), before);
  EXPECT_EQ(world.source_calls(), calls);
}

TEST(Ladder, ReapServesFromABlockWhoseFenceIsDone) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  const Address first = world.allocate(2 * kMiB, kA);
  world->record_stream(first, kB);
  world.queue(kB);
  EXPECT_EQ(world.free(first), FreeOutcome::kPending);
  world.complete(kB);
  EXPECT_EQ(world.allocate(2 * kMiB, kA), first);
  EXPECT_EQ(world.served(Rung::kReap), 1u);
  EXPECT_EQ(world.fences.wait_count(), 0u);
}

TEST(Ladder, TrimTakesIdleMemoryOfAnotherStreamUnderALimit) {
  World world(world_with({.limit = bytes(4 * kMiB), .remap_slack = 1.0}));
  world.free(world.allocate(4 * kMiB, kA));
  world.allocate(4 * kMiB, kB);
  EXPECT_EQ(world.served(Rung::kTrim), 1u);
  EXPECT_EQ(world.reserved(), 4 * kMiB);
  EXPECT_EQ(world.fences.wait_count(), 0u) << "stream A was idle";
}

TEST(Ladder, TrimTakesNoMoreThanIsLackingUnderALimit) {
  World world(world_with({.limit = bytes(16 * kMiB), .remap_slack = 1.0}));
  world.free(world.allocate(12 * kMiB, kA));
  world.allocate(6 * kMiB, kB);
  EXPECT_EQ(world.reserved(), 16 * kMiB) << "2 of the 12 MiB were lacking";
}

TEST(Ladder, WaitServesOnceAFenceIsDone) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  const Address first = world.allocate(2 * kMiB, kA);
  world->record_stream(first, kB);
  world.queue(kB);
  world.free(first);
  world.allocate(2 * kMiB, kA);
  EXPECT_EQ(world.served(Rung::kWait), 1u);
}

TEST(Ladder, WaitServesFromAnotherStreamThatIsStillBusy) {
  World world(world_with({.limit = bytes(4 * kMiB)}));
  const Address first = world.allocate(4 * kMiB, kA);
  world.queue(kA);
  world.free(first);
  world.allocate(4 * kMiB, kB);
  EXPECT_EQ(world.served(Rung::kWait), 1u);
  EXPECT_GE(world.fences.wait_count(), 1u);
}

TEST(Ladder, DoesNotWaitForFencesThatCannotHelp) {
  World world(world_with({.limit = bytes(8 * kMiB)}));
  const Address pending = world.allocate(kMiB, kA);
  world->record_stream(pending, kB);
  world.queue(kB);
  world.free(pending);
  world.allocate(4 * kMiB, kA);
  EXPECT_EQ(world.fences.wait_count(), 0u) << "there was room to grow";
}

TEST(Ladder, FailsOnlyAfterEveryFenceIsDone) {
  World world(world_with({.limit = bytes(4 * kMiB)}));
  world.allocate(2 * kMiB, kA);
  const Address pending = world.allocate(2 * kMiB, kA);
  world->record_stream(pending, kB);
  world.queue(kB);
  world.free(pending);
  const auto refused = world.try_allocate(4 * kMiB, kA);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FailureCode::kLimit);
  EXPECT_EQ(world->stats().pending_bytes, 0u);
  EXPECT_EQ(world.served(Rung::kFail), 1u);
}

TEST(Ladder, DoesNotWaitWhileAStreamCaptures) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  const Address first = world.allocate(2 * kMiB, kA);
  world->record_stream(first, kB);
  world.queue(kB);
  world.free(first);
  world.fences.set_capturing(true);
  EXPECT_FALSE(world.try_allocate(2 * kMiB, kA));
  EXPECT_EQ(world.fences.wait_count(), 0u);
  world.fences.set_capturing(false);
  EXPECT_TRUE(world.try_allocate(2 * kMiB, kA));
}

TEST(Ladder, WithoutStreamsAnyShardServesAMiss) {
  support::WorldOptions options;
  options.streams = support::Streams::kNone;
  World world(options);
  const Address first = world.allocate(2 * kMiB, kA);
  world.free(first);
  EXPECT_EQ(world.allocate(2 * kMiB, kB), first);
  EXPECT_EQ(world.reserved(), 2 * kMiB);
}

TEST(Ladder, EveryRungHasAName) {
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    EXPECT_STRNE(rung_name(static_cast<Rung>(rung)), "") << rung;
  }
}

TEST(OtherRanges, ServeASmallRequestWhenTheLimitLeavesNoGranule) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  world.allocate(kMiB, kA);
  world.allocate(512, kA);
  EXPECT_EQ(world.reserved(), 2 * kMiB);
}

TEST(OtherRanges, ServeALargeRequestWhenTheLimitLeavesNoGranule) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  world.allocate(512, kA);
  world.allocate(kMiB, kA);
  EXPECT_EQ(world.reserved(), 2 * kMiB);
  EXPECT_FALSE(world.try_allocate(kMiB, kA)) << "and fail when they are full, too";
}

}  // namespace
}  // namespace cistern
