#include "cistern/observe/replay.hpp"

#include <gtest/gtest.h>

#include "cistern/sources/simulated_source.hpp"

namespace cistern {
namespace {

constexpr std::size_t kGranule = 2 * kMiB;

/// Two rounds of four blocks of 3 MiB; the last block of each round stays.
ReplayProgram small_program() {
  ReplayProgramBuilder builder;
  for (std::uint64_t round = 0; round < 2; ++round) {
    for (std::uint64_t block = 0; block < 4; ++block) builder.allocate(round * 4 + block, 3 * kMiB, 0);
    for (std::uint64_t block = 0; block < 3; ++block) builder.free(round * 4 + block, 3 * kMiB, 0);
  }
  return builder.take("small.csv");
}

TEST(Replay, TellsWhatTheProgramCostThere) {
  SimulatedSource source;
  const ReplayResult result = replay(small_program(), Options{}, source, 3);
  EXPECT_EQ(result.lower_bound_bytes, 15 * kMiB);
  EXPECT_GE(result.peak_reserved_bytes, result.lower_bound_bytes);
  EXPECT_EQ(result.peak_reserved_bytes, source.peak_held_bytes());
  EXPECT_DOUBLE_EQ(result.ratio, static_cast<double>(result.peak_reserved_bytes) / (15.0 * kMiB));
  EXPECT_GT(result.ns_per_operation, 0.0);
  EXPECT_EQ(result.failure_count, 0u);
  EXPECT_FALSE(result.first_failure);
  EXPECT_EQ(result.stats.requested.current, 6 * kMiB) << "what the trace leaves live";
}

TEST(Replay, LeavesTheSourceEmpty) {
  SimulatedSource source;
  replay(small_program(), Options{}, source, 2);
  EXPECT_EQ(source.held_bytes(), 0u);
  EXPECT_EQ(source.range_count(), 0u);
}

TEST(Replay, TheSamePlacementHasTheSameHash) {
  SimulatedSource first;
  SimulatedSource second;
  const ReplayProgram program = small_program();
  const std::uint64_t hash = replay(program, Options{}, first).placement_hash;
  EXPECT_EQ(replay(program, Options{}, second, 4).placement_hash, hash);
  SimulatedOptions elsewhere;
  elsewhere.whole_only = true;
  SimulatedSource third(elsewhere);
  EXPECT_NE(replay(program, Options{}, third).placement_hash, hash);
}

TEST(Replay, PreallocateReservesOnce) {
  SimulatedSource source;
  Options options;
  options.strategy = Strategy::kPreallocate;
  options.preallocate = Amount{32 * kMiB};
  const ReplayResult result = replay(small_program(), options, source);
  EXPECT_GE(result.peak_reserved_bytes, 32 * kMiB);
  EXPECT_LE(result.peak_reserved_bytes, 34 * kMiB);
  EXPECT_LE(result.stats.source_calls.total(), 4u);
}

TEST(Replay, CountsWhatALimitRefusesAndGoesOn) {
  SimulatedSource source;
  Options options;
  options.limit = Amount{7 * kMiB};
  const ReplayResult result = replay(small_program(), options, source);
  EXPECT_GT(result.failure_count, 0u);
  ASSERT_TRUE(result.first_failure);
  EXPECT_EQ(result.first_failure->asked_bytes, 3 * kMiB);
  EXPECT_LE(result.peak_reserved_bytes, 7 * kMiB);
}

TEST(Replay, EventsOfAPassTellEveryAllocationAndFree) {
  SimulatedSource source;
  const std::vector<Event> events = replay_events(small_program(), Options{}, source);
  std::size_t allocations = 0;
  std::size_t frees = 0;
  std::uint64_t committed_bytes = 0;
  for (std::size_t index = 0; index < events.size(); ++index) {
    EXPECT_EQ(events[index].sequence, index);
    allocations += events[index].kind == EventKind::kAllocate ? 1 : 0;
    frees += events[index].kind == EventKind::kFree ? 1 : 0;
    if (events[index].kind == EventKind::kCommit) committed_bytes += events[index].bytes;
  }
  EXPECT_EQ(allocations, 8u);
  EXPECT_EQ(frees, 6u);
  EXPECT_EQ(committed_bytes, source.cost(SourceVerb::kCommit).bytes);
}

}  // namespace
}  // namespace cistern
