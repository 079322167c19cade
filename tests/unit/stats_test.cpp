// Statistics in PyTorch's terms, exact peaks over several heaps, and recordings.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::World;
using support::world_with;

constexpr StreamId kA{1};
constexpr StreamId kB{2};
constexpr StreamId kC{3};

TEST(Statistics, StartAtZero) {
  World world;
  const Stats stats = world->stats();
  EXPECT_EQ(stats.requested.peak, 0u);
  EXPECT_EQ(stats.reserved.peak, 0u);
  EXPECT_EQ(stats.source_calls.total(), 0u);
}

TEST(Statistics, TellRequestedFromAllocatedFromReserved) {
  World world;
  world.allocate(1000, kA);
  const Stats stats = world->stats();
  EXPECT_EQ(stats.requested.current, 1000u);
  EXPECT_EQ(stats.allocated.current, 1024u);
  EXPECT_EQ(stats.active.current, 1024u);
  EXPECT_EQ(stats.reserved.current, 2 * kMiB);
  EXPECT_EQ(stats.allocations.current, 1u);
  EXPECT_EQ(stats.segments.current, 1u);
  EXPECT_EQ(stats.inactive_split.current, 2 * kMiB - 1024);
  EXPECT_EQ(stats.inactive_split_blocks.current, 1u);
  EXPECT_EQ(stats.largest_free_bytes, 2 * kMiB - 1024);
}

TEST(Statistics, AFreeBlockBesideNothingInUseIsNotSplit) {
  World world;
  world.free(world.allocate(1000, kA));
  EXPECT_EQ(world->stats().inactive_split.current, 0u);
  EXPECT_EQ(world->stats().inactive_split.peak, 2 * kMiB - 1024);
}

TEST(Statistics, PeaksAreThoseOfTheDeviceNotTheSumOfPeaksOfHeaps) {
  World world;
  for (const StreamId stream : {kA, kB, kC}) world.free(world.allocate(10 * kMiB, stream));
  EXPECT_EQ(world->stats().requested.peak, 10 * kMiB);
  EXPECT_EQ(world->stats().allocations.peak, 1u);
  const Address a = world.allocate(10 * kMiB, kA);
  const Address b = world.allocate(4 * kMiB, kB);
  world.free(a);
  const Address c = world.allocate(5 * kMiB, kC);
  EXPECT_EQ(world->stats().requested.peak, 14 * kMiB);
  world.free(b);
  world.free(c);
  EXPECT_EQ(world->stats().requested.peak, 14 * kMiB);
  EXPECT_EQ(world->stats().requested.current, 0u);
}

TEST(Statistics, ResetPeakStartsFromNow) {
  World world;
  const Address small = world.allocate(kMiB, kA);
  world.free(world.allocate(10 * kMiB, kA));
  world->reset_peak();
  world->mark(support::kResetPeakMark);
  EXPECT_EQ(world->stats().requested.peak, kMiB);
  EXPECT_EQ(world->stats().reserved.peak, world->stats().reserved.current);
  world.free(small);
  EXPECT_EQ(world->stats().requested.peak, kMiB);
  world.allocate(2 * kMiB, kB);
  EXPECT_EQ(world->stats().requested.peak, 2 * kMiB);
}

TEST(Statistics, CanBeResetBeforeTheFirstRequest) {
  World world;
  world->reset_peak();
  world->reset_accumulated();
  EXPECT_EQ(world->stats().requested.peak, 0u);
}

TEST(Statistics, ResetAccumulatedForgetsWhatWentInAndOut) {
  World world;
  world.allocate(1024, kA);
  world->reset_accumulated();
  world->mark(support::kResetAccumulatedMark);
  Stats stats = world->stats();
  EXPECT_EQ(stats.requested.current, 1024u);
  EXPECT_EQ(stats.requested.allocated, 0u);
  world.free(world.allocate(512, kA));
  stats = world->stats();
  EXPECT_EQ(stats.requested.allocated, 512u);
  EXPECT_EQ(stats.requested.freed, 512u);
}

TEST(Statistics, TellSmallBlocksFromLargeOnes) {
  World world;
  world.allocate(1000, kA);
  const Address large = world.allocate(3 * kMiB, kA);
  const Stats stats = world->stats();
  const BlockStats& small = stats.of_class[kSmallBlocks];
  EXPECT_EQ(small.requested.current, 1000u);
  EXPECT_EQ(small.allocated.current, 1024u);
  EXPECT_EQ(small.active_blocks.current, 1u);
  EXPECT_EQ(small.reserved.current, 2 * kMiB);
  EXPECT_EQ(small.segments.current, 1u);
  EXPECT_EQ(small.inactive_split.current, 2 * kMiB - 1024);
  EXPECT_EQ(stats.of_class[kLargeBlocks].allocated.current, 3 * kMiB);
  EXPECT_EQ(stats.of_class[kLargeBlocks].reserved.current, stats.reserved.current - 2 * kMiB);
  world.free(large);
  world.trim();
  EXPECT_EQ(world->stats().of_class[kLargeBlocks].allocated.freed, 3 * kMiB);
  EXPECT_EQ(world->stats().of_class[kLargeBlocks].reserved.current, 0u);
  EXPECT_EQ(world->stats().of_class[kLargeBlocks].segments.current, 0u);
  EXPECT_EQ(world->stats().of_class[kSmallBlocks].reserved.freed, 0u);
}

TEST(Statistics, PeaksOfClassesAreTheirOwnOverAllHeaps) {
  World world;
  const Address first = world.allocate(512 * kKiB, kA);
  const Address second = world.allocate(256 * kKiB, kB);
  world.free(first);
  world.free(second);
  const Address third = world.allocate(4 * kMiB, kB);
  world.allocate(512 * kKiB, kC);
  const Stats stats = world->stats();
  EXPECT_EQ(stats.of_class[kSmallBlocks].allocated.peak, 768 * kKiB);
  EXPECT_EQ(stats.of_class[kSmallBlocks].allocations.peak, 2u);
  EXPECT_EQ(stats.of_class[kLargeBlocks].allocated.peak, 4 * kMiB);
  EXPECT_EQ(stats.of_class[kLargeBlocks].allocations.peak, 1u);
  EXPECT_EQ(stats.allocated.peak, 4 * kMiB + 512 * kKiB);
  world.free(third);
  world->reset_peak();
  world->mark(support::kResetPeakMark);
  EXPECT_EQ(world->stats().of_class[kSmallBlocks].allocated.peak, 512 * kKiB);
  EXPECT_EQ(world->stats().of_class[kLargeBlocks].allocated.peak, 0u);
}

TEST(Statistics, ThePeakOfSplitBytesIsTheHeapsAndNotTheSumOfItsClasses) {
  World world(world_with({.trim = TrimMode::kKeepAll}));
  const Address small = world.allocate(kMiB / 2, kA);  // 1.5 MiB split
  world.free(small);                                   // whole again
  const Address large = world.allocate(3 * kMiB, kA);  // 1 MiB split
  const Stats stats = world->stats();
  EXPECT_EQ(stats.of_class[kSmallBlocks].inactive_split.peak, 3 * kMiB / 2);
  EXPECT_EQ(stats.of_class[kLargeBlocks].inactive_split.peak, kMiB);
  EXPECT_EQ(stats.inactive_split.peak, 3 * kMiB / 2);
  world.free(large);
}

TEST(Statistics, ARequestThatFailedLeavesNoCreditBehind) {
  World world(world_with({.limit = support::bytes(2 * kMiB)}));
  const Address first = world.allocate(1000, kA);
  for (int i = 0; i < 2; ++i) world.allocate(kMiB - 512, kA);
  world.free(first);
  EXPECT_FALSE(world->allocate({.bytes = 1000, .alignment = 64 * kKiB, .stream = kA}));
  world.allocate(1024, kA);  // where the first was; 24 bytes more were asked for than ever before
  EXPECT_EQ(world->stats().requested.peak, 2 * kMiB);
}

TEST(Statistics, UnderPreallocateEveryBlockIsLarge) {
  World world(world_with({.strategy = Strategy::kPreallocate, .limit = support::bytes(64 * kMiB)}));
  world.allocate(1000, kA);
  const Stats stats = world->stats();
  EXPECT_EQ(stats.of_class[kLargeBlocks].allocated.current, 1024u);
  EXPECT_EQ(stats.of_class[kSmallBlocks].allocations.allocated, 0u);
}

TEST(Statistics, EveryRequestIsCountedAtOneRung) {
  World world(world_with({.limit = support::bytes(8 * kMiB)}));
  std::vector<Address> live;
  for (int i = 0; i < 12; ++i) {
    if (const auto result = world.try_allocate(kMiB, kA)) live.push_back(result->address);
  }
  const Stats stats = world->stats();
  std::uint64_t served = 0;
  for (const std::uint64_t count : stats.served) served += count;
  EXPECT_EQ(served, 12u);
  EXPECT_EQ(stats.served[static_cast<std::size_t>(Rung::kFail)], 12 - live.size());
}

TEST(Recording, ReproducesTheStatistics) {
  World world;
  std::vector<Address> live;
  for (std::size_t i = 1; i < 200; ++i) {
    live.push_back(world.allocate(i * 10'000, StreamId{i % 3}));
    if (i % 3 == 0) {
      world.free(live[live.size() / 2]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(live.size() / 2));
    }
  }
  for (const Address address : live) world.free(address);
  world.trim();
  const Stats stats = world->stats();
  world->stop_recording();
  world.validator.finish();
  EXPECT_EQ(world.validator.stats().difference(stats).value_or(""), "");
  EXPECT_EQ(world.validator.stats().class_difference(stats).value_or(""), "");
}

TEST(Recording, StartedLaterFirstTellsWhatIsThere) {
  World world;
  world->stop_recording();
  const Address block = world.allocate(5 * kMiB, kA);
  world.free(world.allocate(3 * kMiB, kA));
  world.allocate(100, kB);
  support::Validator second(world.source.traits(), 512);
  world->start_recording(second);
  world.free(block);
  world->stop_recording();
  second.finish();
  EXPECT_EQ(second.violation().value_or(""), "");
  EXPECT_EQ(second.live_count(), 1u);
  EXPECT_EQ(second.stats().reserved.current, world.reserved());
  EXPECT_EQ(second.stats().requested.current, 100u);
}

class Collector final : public EventSink {
 public:
  void consume(std::span<const Event> events) override {
    all.insert(all.end(), events.begin(), events.end());
  }
  std::vector<Event> all;
};

TEST(Recording, KeepsEveryEventOfALongRunWithoutDroppingAny) {
  World world;
  world->stop_recording();
  Collector collector;
  world->start_recording(collector);
  for (int i = 0; i < 20'000; ++i)
    world.free(world.allocate(512, StreamId{static_cast<std::uint64_t>(i % 2)}));
  world->mark(7);
  world->stop_recording();
  std::vector<bool> seen(collector.all.size());
  for (const Event& event : collector.all) {
    ASSERT_LT(event.sequence, seen.size());
    seen[event.sequence] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
  EXPECT_GE(seen.size(), 40'000u);
  EXPECT_EQ(world->stats().dropped_events, 0u);
}

}  // namespace
}  // namespace cistern
