#include "cistern/sources/simulated_source.hpp"

#include <gtest/gtest.h>

namespace cistern {
namespace {

constexpr std::size_t kGranule = 2 * kMiB;

SimulatedOptions small_device(std::size_t granule_count) {
  SimulatedOptions options;
  options.capacity_bytes = granule_count * kGranule;
  return options;
}

SimulatedOptions malloc_device(std::size_t granule_count) {
  SimulatedOptions options = small_device(granule_count);
  options.whole_only = true;
  return options;
}

TEST(SimulatedSource, ADeviceOf140GiBCostsNothing) {
  SimulatedSource source;
  const auto range = source.reserve(140 * kGiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(source.commit(range->id, 0, 140 * kGiB), 140 * kGiB);
  EXPECT_EQ(source.available_bytes(), 0u);
  EXPECT_EQ(source.traits().range_step_bytes, 4 * kGiB);
  EXPECT_EQ(SimulatedSource(small_device(4)).traits().range_step_bytes, 4 * kGranule);
}

TEST(SimulatedSource, RangesAreAlignedAndNeverTouch) {
  SimulatedSource source;
  const auto first = source.reserve(3 * kGranule);
  const auto second = source.reserve(kGranule);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->address % kGranule, 0u);
  EXPECT_GT(second->address, first->address + first->bytes);
}

TEST(SimulatedSource, AddressesComeBackAfterUnreserveButIdsDoNot) {
  SimulatedSource source;
  const auto first = source.reserve(kGranule);
  ASSERT_TRUE(source.reserve(kGranule));
  source.unreserve(first->id);
  const auto again = source.reserve(kGranule);
  EXPECT_EQ(again->address, first->address);
  EXPECT_NE(again->id, first->id);
  EXPECT_DEATH(source.commit(first->id, 0, kGranule), "range_is_reserved");
}

TEST(SimulatedSource, CapacityBoundsWhatAllRangesHold) {
  SimulatedSource source(small_device(4));
  const auto first = source.reserve(4 * kGranule);
  const auto second = source.reserve(4 * kGranule);
  ASSERT_TRUE(first && second) << "address space is not memory";
  EXPECT_EQ(source.commit(first->id, 0, 3 * kGranule), 3 * kGranule);
  EXPECT_EQ(source.commit(second->id, 0, 2 * kGranule), 0u);
  EXPECT_EQ(source.commit(second->id, kGranule, kGranule), kGranule);
  source.decommit(first->id, kGranule, kGranule);
  EXPECT_EQ(source.commit(first->id, 3 * kGranule, kGranule), kGranule)
      << "a hole here, memory there: a remap";
  EXPECT_EQ(source.held_bytes(), 4 * kGranule);
  EXPECT_EQ(source.peak_held_bytes(), 4 * kGranule);
}

TEST(SimulatedSource, AddressSpaceCanRunOut) {
  SimulatedOptions options = small_device(64);
  options.address_space_bytes = 8 * kGranule;
  SimulatedSource source(options);
  EXPECT_FALSE(source.reserve(9 * kGranule));
  const auto range = source.reserve(8 * kGranule);
  ASSERT_TRUE(range);
  EXPECT_FALSE(source.reserve(kGranule));
  source.unreserve(range->id);
  EXPECT_TRUE(source.reserve(kGranule));
}

TEST(SimulatedSource, WholeOnlyTakesTheMemoryOnReserve) {
  SimulatedSource source(malloc_device(4));
  const auto range = source.reserve(3 * kGranule);
  ASSERT_TRUE(range);
  EXPECT_EQ(source.held_bytes(), 3 * kGranule);
  EXPECT_FALSE(source.reserve(2 * kGranule));
  EXPECT_EQ(source.commit(range->id, 0, 3 * kGranule), 3 * kGranule);
  source.decommit(range->id, 0, 3 * kGranule);
  EXPECT_EQ(source.held_bytes(), 3 * kGranule);
  source.unreserve(range->id);
  EXPECT_EQ(source.held_bytes(), 0u);
  EXPECT_EQ(source.peak_held_bytes(), 3 * kGranule);
}

TEST(SimulatedSource, EveryVerbIsCounted) {
  SimulatedSource source(small_device(4));
  const auto range = source.reserve(4 * kGranule);
  source.commit(range->id, 0, 2 * kGranule);
  source.commit(range->id, 2 * kGranule, kGranule);
  source.decommit(range->id, kGranule, 2 * kGranule);
  source.decommit(range->id, 0, kGranule);
  source.unreserve(range->id);
  EXPECT_EQ(source.cost(SourceVerb::kReserve).bytes, 4 * kGranule);
  EXPECT_EQ(source.cost(SourceVerb::kCommit).calls, 2u);
  EXPECT_EQ(source.cost(SourceVerb::kCommit).bytes, 3 * kGranule);
  EXPECT_EQ(source.cost(SourceVerb::kDecommit).calls, 2u);
  EXPECT_EQ(source.cost(SourceVerb::kDecommit).bytes, 3 * kGranule);
  EXPECT_EQ(source.cost(SourceVerb::kUnreserve).calls, 1u);
}

TEST(SimulatedSource, FailsTheNthCallAndOnlyThat) {
  SimulatedSource source;
  source.refuse_when(refuse_nth(SourceVerb::kCommit, 2));
  const auto range = source.reserve(4 * kGranule);
  EXPECT_EQ(source.commit(range->id, 0, kGranule), kGranule);
  EXPECT_EQ(source.commit(range->id, kGranule, kGranule), 0u);
  EXPECT_EQ(source.commit(range->id, kGranule, kGranule), kGranule) << "the refused call changed nothing";
  EXPECT_EQ(source.cost(SourceVerb::kCommit).calls, 3u);
  EXPECT_EQ(source.cost(SourceVerb::kCommit).refused, 1u);
  EXPECT_EQ(source.cost(SourceVerb::kCommit).bytes, 2 * kGranule);
}

TEST(SimulatedSource, FailsAlwaysOrAsAPredicateSaysUntilToldOtherwise) {
  SimulatedSource source;
  source.refuse_when(refuse_always(SourceVerb::kReserve));
  EXPECT_FALSE(source.reserve(kGranule));
  EXPECT_FALSE(source.reserve(kGranule));
  source.refuse_when([](const SourceCall& call) { return call.bytes > kGranule; });
  EXPECT_FALSE(source.reserve(2 * kGranule));
  EXPECT_TRUE(source.reserve(kGranule));
  source.refuse_when({});
  EXPECT_TRUE(source.reserve(2 * kGranule));
}

TEST(SimulatedSourceDeathTest, EveryBrokenPromiseOfACallerIsCaught) {
  SimulatedSource source;
  const auto range = source.reserve(4 * kGranule);
  source.commit(range->id, 0, 2 * kGranule);
  EXPECT_DEATH(source.reserve(0), "misuse: bytes != ");
  EXPECT_DEATH(source.reserve(kGranule + 4096), "misuse: bytes % traits_.granule_bytes == ");
  EXPECT_DEATH(source.commit(range->id, kGranule, 2 * kGranule), "misuse: granule_is_committed == ")
      << "twice";
  EXPECT_DEATH(source.decommit(range->id, kGranule, 2 * kGranule), "misuse: granule_is_committed == ")
      << "never";
  EXPECT_DEATH(source.commit(range->id, 3 * kGranule, 2 * kGranule), "misuse: bytes <= range.bytes - offset");
  EXPECT_DEATH(source.commit(range->id, 5 * kGranule, kGranule), "misuse: offset <= range.bytes");
  EXPECT_DEATH(source.commit(range->id, 512, kGranule), "misuse: offset % traits_.granule_bytes == ");
  EXPECT_DEATH(source.commit(RangeId{77}, 0, kGranule), "misuse: range_is_reserved == ");
  EXPECT_DEATH(source.unreserve(range->id), "misuse: committed_granules == ");
}

TEST(SimulatedSourceDeathTest, WholeOnlyCommitsAndDecommitsWhole) {
  SimulatedSource source(malloc_device(4));
  const auto range = source.reserve(2 * kGranule);
  EXPECT_DEATH(source.commit(range->id, 0, kGranule), "misuse: bytes == range.bytes");
}

}  // namespace
}  // namespace cistern
