#include "cistern/sources/host_source.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace cistern {
namespace {

constexpr std::size_t kGranule = 2 * kMiB;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

char* at(const SourceRange& range, std::size_t offset) {
  return reinterpret_cast<char*>(range.address + offset);
}

TEST(HostSource, KnowsTheMachinesMemory) {
  const HostSource source;
  EXPECT_EQ(source.traits().granule_bytes, kGranule);
  EXPECT_GE(source.traits().capacity_bytes, 256 * kMiB);
  EXPECT_GT(source.available_bytes(), 0u);
  EXPECT_LE(source.available_bytes(), source.traits().capacity_bytes);
  EXPECT_EQ(source.traits().range_step_bytes % kGiB, 0u);
}

TEST(HostSource, RangesAreAlignedToTheGranuleAndApart) {
  HostSource source({64 * kMiB, kGiB});
  const auto first = source.reserve(64 * kMiB);
  const auto second = source.reserve(128 * kMiB);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->address % (64 * kMiB), 0u);
  EXPECT_EQ(second->address % (64 * kMiB), 0u);
  EXPECT_TRUE(first->address + first->bytes <= second->address ||
              second->address + second->bytes <= first->address);
}

TEST(HostSource, CommittedMemoryHoldsWhatIsWrittenAndLeavesTheProcessOnDecommit) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer's shadow of what was written stays resident: RSS says nothing here";
#endif
  constexpr std::size_t kBytes = 64 * kMiB;
  HostSource source({kGranule, kGiB});
  const auto range = source.reserve(4 * kBytes);
  ASSERT_TRUE(range);
  const std::size_t before = resident_bytes();
  ASSERT_EQ(source.commit(range->id, kBytes, kBytes), kBytes);
  std::memset(at(*range, kBytes), 7, kBytes);
  EXPECT_GE(resident_bytes(), before + kBytes - kMiB);
  EXPECT_EQ(*at(*range, 2 * kBytes - 1), 7);
  source.decommit(range->id, kBytes, kBytes);
  EXPECT_LT(resident_bytes(), before + kBytes / 4);
  EXPECT_EQ(source.committed_bytes(), 0u);
}

TEST(HostSource, DecommitOfOneGranuleLeavesItsNeighboursAlone) {
  HostSource source({kGranule, kGiB});
  const auto range = source.reserve(3 * kGranule);
  ASSERT_TRUE(range);
  ASSERT_EQ(source.commit(range->id, 0, 3 * kGranule), 3 * kGranule);
  std::memset(at(*range, 0), 7, 3 * kGranule);
  source.decommit(range->id, kGranule, kGranule);
  EXPECT_EQ(*at(*range, kGranule - 1), 7);
  EXPECT_EQ(*at(*range, 2 * kGranule), 7);
  ASSERT_EQ(source.commit(range->id, kGranule, kGranule), kGranule);
  EXPECT_EQ(*at(*range, kGranule), 0) << "memory comes back empty";
}

TEST(HostSource, RefusesMoreThanItsCapacity) {
  HostSource source({kGranule, 4 * kGranule});
  const auto range = source.reserve(8 * kGranule);
  ASSERT_TRUE(range) << "address space is not memory";
  EXPECT_EQ(source.commit(range->id, 0, 5 * kGranule), 0u);
  EXPECT_EQ(source.commit(range->id, 0, 4 * kGranule), 4 * kGranule);
  EXPECT_EQ(source.commit(range->id, 4 * kGranule, kGranule), 0u);
  EXPECT_EQ(source.available_bytes(), 0u);
}

TEST(HostSource, RefusesAddressSpaceTheSystemDoesNotHave) {
  HostSource source;
  EXPECT_FALSE(source.reserve(std::size_t{1} << 62));
  EXPECT_FALSE(source.reserve(~std::size_t{0} & ~(kGranule - 1)));
  EXPECT_TRUE(source.reserve(kGranule)) << "a refusal leaves it usable";
}

TEST(HostSource, UnreserveGivesTheAddressSpaceBack) {
  HostSource source;
  const auto range = source.reserve(kGranule);
  ASSERT_TRUE(range);
  ASSERT_EQ(source.commit(range->id, 0, kGranule), kGranule);
  source.decommit(range->id, 0, kGranule);
  source.unreserve(range->id);
  EXPECT_DEATH(source.unreserve(range->id), "range_is_reserved");
}

TEST(HostSourceDeathTest, MemoryNotCommittedIsNotAccessible) {
  HostSource source;
  const auto range = source.reserve(2 * kGranule);
  ASSERT_TRUE(range);
  ASSERT_EQ(source.commit(range->id, 0, kGranule), kGranule);
  EXPECT_DEATH(*at(*range, kGranule) = 1, "");
  source.decommit(range->id, 0, kGranule);
  EXPECT_DEATH(*at(*range, 0) = 1, "");
}

TEST(HostSourceDeathTest, MisuseEndsTheProcess) {
  HostSource source;
  const auto range = source.reserve(2 * kGranule);
  ASSERT_TRUE(range);
  EXPECT_DEATH(source.reserve(kGranule + 1), "bytes % traits_.granule_bytes == std::size_t\\{0\\}");
  EXPECT_DEATH(source.commit(range->id, 0, 3 * kGranule), "misuse");
  EXPECT_DEATH(source.commit(range->id, 4096, kGranule), "misuse");
  EXPECT_DEATH(source.decommit(range->id, 0, kGranule), "misuse") << "nothing is committed";
}

}  // namespace
}  // namespace cistern
