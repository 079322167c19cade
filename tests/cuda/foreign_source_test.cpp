// Segments of somebody else's allocator: whatever it returns, and whoever dies first.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>

#include "cistern/sources/cuda/foreign_source.hpp"

namespace cistern {
namespace {

/// Gives addresses that are `skew` off a granule, and knows what it gave.
struct Foreign {
  std::size_t skew = 0;
  bool refuses = false;
  bool breaks = false;
  std::map<std::uintptr_t, std::size_t> live{};
  std::uintptr_t next = std::uintptr_t{1} << 40;

  void* allocate(std::size_t bytes) {
    if (refuses) return nullptr;
    const std::uintptr_t address = next + skew;
    next += round_up(bytes + 2 * kMiB, 2 * kMiB);
    live[address] = bytes;
    return reinterpret_cast<void*>(address);
  }
  void release(void* address) {
    if (breaks) throw std::runtime_error("foreign allocator is broken");
    EXPECT_EQ(live.erase(reinterpret_cast<std::uintptr_t>(address)), 1u);
  }
};

std::unique_ptr<WholeSource> source_of(const std::shared_ptr<Foreign>& foreign) {
  return make_foreign_source({.allocate = [foreign](std::size_t bytes) { return foreign->allocate(bytes); },
                              .release = [foreign](void* address) { foreign->release(address); }},
                             {.capacity_bytes = kGiB});
}

TEST(ForeignSource, SegmentsGoBackThroughTheFunctionsTheyCameFrom) {
  const auto foreign = std::make_shared<Foreign>();
  const auto source = source_of(foreign);
  EXPECT_EQ(source->traits().name, "foreign");
  EXPECT_EQ(source->available_bytes(), kGiB);
  const auto range = source->reserve(4 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(foreign->live.at(range->address), 4 * kMiB);
  source->unreserve(range->id);
  EXPECT_TRUE(foreign->live.empty());
}

TEST(ForeignSource, TheAllocatorLivesUntilTheLastSegmentWentBack) {
  auto foreign = std::make_shared<Foreign>();
  const std::weak_ptr<Foreign> watch = foreign;
  auto source = source_of(foreign);
  foreign.reset();  // as the pool that brought it does
  const auto range = source->reserve(2 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_FALSE(watch.expired());
  source.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(ForeignSource, AnAddressOffTheGranuleIsAlignedWithinAMoreGenerousSegment) {
  const auto foreign = std::make_shared<Foreign>();
  foreign->skew = 512;
  const auto source = source_of(foreign);
  const auto range = source->reserve(4 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->address % (2 * kMiB), 0u);
  ASSERT_EQ(foreign->live.size(), 1u);
  const auto [address, bytes] = *foreign->live.begin();
  EXPECT_LE(address, range->address);
  EXPECT_LE(range->address + range->bytes, address + bytes);
  source->unreserve(range->id);
  EXPECT_TRUE(foreign->live.empty());
}

TEST(ForeignSource, NullIsARefusal) {
  const auto foreign = std::make_shared<Foreign>();
  foreign->refuses = true;
  const auto source = source_of(foreign);
  EXPECT_FALSE(source->reserve(2 * kMiB));
}

TEST(ForeignSource, ABrokenReleaseIsKeptAndTriedAgain) {
  const auto foreign = std::make_shared<Foreign>();
  const auto source = source_of(foreign);
  const auto range = source->reserve(2 * kMiB);
  foreign->breaks = true;
  source->unreserve(range->id);
  foreign->breaks = false;
  const auto fault = source->faults().take();
  ASSERT_TRUE(fault);
  EXPECT_NE(std::string(fault->what()).find("foreign allocator is broken"), std::string::npos);
  EXPECT_EQ(foreign->live.size(), 1u);
  const auto next = source->reserve(2 * kMiB);
  EXPECT_EQ(foreign->live.size(), 1u) << "the first went back meanwhile";
  source->unreserve(next->id);
}

TEST(ForeignSourceDeathTest, APartOfASegmentIsMisuse) {
  const auto source = source_of(std::make_shared<Foreign>());
  const auto range = source->reserve(4 * kMiB);
  EXPECT_DEATH(source->commit(range->id, 0, 2 * kMiB), "bytes");
}

}  // namespace
}  // namespace cistern
