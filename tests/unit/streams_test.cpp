// Blocks that several streams use: when they may be granted again.
#include <gtest/gtest.h>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;

constexpr StreamId kA{1};
constexpr StreamId kB{2};
constexpr StreamId kC{3};

TEST(StreamUse, ABlockOfOneStreamIsReusableThereAtOnceAndWithoutAFence) {
  World world;
  const Address block = world.allocate(kMiB, kA);
  world.queue(kA);
  EXPECT_EQ(world.free(block), FreeOutcome::kFreed);
  EXPECT_EQ(world.allocate(kMiB, kA), block);
  EXPECT_EQ(world.fences.record_count(), 0u);
}

TEST(StreamUse, StreamsDoNotShareFreeBlocks) {
  World world;
  const Address block = world.allocate(2 * kMiB, kA);
  world.free(block);
  EXPECT_NE(world.allocate(2 * kMiB, kB), block);
}

TEST(StreamUse, RecordingTheOwnerChangesNothing) {
  World world;
  const Address block = world.allocate(kMiB, kA);
  EXPECT_TRUE(world->record_stream(block, kA));
  EXPECT_EQ(world.free(block), FreeOutcome::kFreed);
}

TEST(StreamUse, APendingBlockStaysActiveUntilItsFencesAreDone) {
  World world;
  const Address block = world.allocate(kMiB, kA);
  world->record_stream(block, kB);
  world->record_stream(block, kC);
  world->record_stream(block, kB);
  world.queue(kB);
  world.queue(kC);
  EXPECT_EQ(world.free(block), FreeOutcome::kPending);
  EXPECT_EQ(world->stats().allocated.current, 0u);
  EXPECT_EQ(world->stats().active.current, kMiB);
  EXPECT_EQ(world->stats().pending_bytes, kMiB);
  EXPECT_EQ(world.fences.record_count(), 2u) << "one fence a stream";
  world.complete(kB);
  EXPECT_NE(world.allocate(kMiB, kA), block);
  world.complete(kC);
  world.allocate(kGiB / 2, kA);  // a miss reaps
  EXPECT_EQ(world->stats().pending_bytes, 0u);
}

TEST(StreamUse, WorkQueuedBeforeTheFreeCountsEvenIfQueuedAfterRecording) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  const Address block = world.allocate(2 * kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.complete(kB);
  world.queue(kB);  // still uses the block
  world.free(block);
  world.allocate(2 * kMiB, kA);
  EXPECT_EQ(world.served(Rung::kReap), 0u) << "the validator would say I8, too";
}

TEST(StreamUse, ASecondFreeOfAPendingBlockIsCaught) {
  World world;
  const Address block = world.allocate(kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.free(block);
  EXPECT_EQ(world.free(block), FreeOutcome::kNotLive);
  EXPECT_FALSE(world->record_stream(block, kC));
}

TEST(StreamUse, ARecordedStreamIsForgottenWithTheGrant) {
  World world;
  const Address block = world.allocate(kMiB, kA);
  world->record_stream(block, kB);
  world.free(block);
  world.trim();
  const Address again = world.allocate(kMiB, kA);
  EXPECT_EQ(world.free(again), FreeOutcome::kFreed);
}

TEST(StreamUse, NeighboursOfAPendingBlockDoNotMergeWithIt) {
  World world;
  const Address first = world.allocate(2 * kMiB, kA);
  const Address second = world.allocate(2 * kMiB, kA);
  const Address third = world.allocate(2 * kMiB, kA);
  ASSERT_EQ(second, first + 2 * kMiB);
  world->record_stream(second, kB);
  world.queue(kB);
  world.free(first);
  world.free(second);
  world.free(third);
  EXPECT_LE(world->stats().largest_free_bytes, 2 * kMiB);
  world.complete(kB);
  EXPECT_EQ(world.allocate(6 * kMiB, kA), first);
  EXPECT_EQ(world.reserved(), 6 * kMiB);
}

TEST(StreamUse, WithoutFencesRecordingIsANoOp) {
  support::WorldOptions options;
  options.streams = support::Streams::kNone;
  World world(options);
  const Address block = world.allocate(kMiB, kA);
  EXPECT_TRUE(world->record_stream(block, kB));
  EXPECT_EQ(world.free(block), FreeOutcome::kFreed);
}

TEST(StreamUse, AFreeWhileCapturingIsFencedOnceTheCaptureEnds) {
  World world(world_with({.limit = bytes(2 * kMiB)}));
  const Address block = world.allocate(2 * kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.fences.set_capturing(true);
  EXPECT_EQ(world.free(block), FreeOutcome::kPending);
  EXPECT_FALSE(world.try_allocate(2 * kMiB, kA));
  world.fences.set_capturing(false);
  world.complete(kB);
  EXPECT_EQ(world.allocate(2 * kMiB, kA), block);
}

TEST(UnfencedUse, IsFencedByTheFirstMissThatCanRecord) {
  World world;
  const Address block = world.allocate(2 * kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.fences.set_recordable(false);
  world.fences.set_capturing(true);
  EXPECT_EQ(world.free(block), FreeOutcome::kPending);
  EXPECT_NE(world.allocate(2 * kMiB, kA), block) << "a miss that still cannot record";
  EXPECT_EQ(world.fences.record_count(), 0u);
  world.fences.set_recordable(true);
  world.fences.set_capturing(false);
  EXPECT_NE(world.allocate(2 * kMiB, kA), block) << "fenced now, but not done";
  EXPECT_EQ(world.fences.record_count(), 1u);
  world.complete(kB);
  EXPECT_EQ(world.allocate(2 * kMiB, kA), block);
}

TEST(UnfencedUse, NeverLetsATrimTakeTheMemory) {
  World world;
  const Address block = world.allocate(2 * kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.fences.set_recordable(false);
  world.fences.set_capturing(true);
  world.free(block);
  EXPECT_EQ(world.trim(), 0u);
  world.fences.set_recordable(true);
  world.fences.set_capturing(false);
  EXPECT_EQ(world.trim(), 2 * kMiB);
}

TEST(OwnerFence, ThatCannotBeRecordedLeavesTheMemoryWhereItIs) {
  World world;
  world.free(world.allocate(2 * kMiB, kA));
  world.fences.set_recordable(false);
  EXPECT_EQ(world.trim(), 0u);
  world.fences.set_recordable(true);
  EXPECT_EQ(world.trim(), 2 * kMiB);
}

}  // namespace
}  // namespace cistern
