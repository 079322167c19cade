#include "cistern/core/address_map.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>

#include "cistern/base/units.hpp"
#include "support/host_allocations.hpp"

namespace cistern {
namespace {

// The map never looks at a heap, so any two distinct pointers will do.
Heap* const kHeap = reinterpret_cast<Heap*>(0x1000);
Heap* const kOther = reinterpret_cast<Heap*>(0x2000);
constexpr Address kBase = Address{1} << 40;

class AddressMapTest : public ::testing::Test {
 protected:
  std::unique_ptr<AddressMap> map_ = std::make_unique<AddressMap>();
};

TEST_F(AddressMapTest, KnowsNoAddressAtFirst) {
  EXPECT_EQ(map_->find(0), nullptr);
  EXPECT_EQ(map_->find(kBase), nullptr);
  EXPECT_EQ(map_->find(~Address{0}), nullptr);
}

TEST_F(AddressMapTest, FindsEveryByteOfARangeOfWholePages) {
  map_->add(kBase, 4 * kMiB, kHeap);
  EXPECT_EQ(map_->find(kBase - 1), nullptr);
  EXPECT_EQ(map_->find(kBase), kHeap);
  EXPECT_EQ(map_->find(kBase + 4 * kMiB - 1), kHeap);
  EXPECT_EQ(map_->find(kBase + 4 * kMiB), nullptr);
}

TEST_F(AddressMapTest, FindsRangesThatShareAPage) {
  map_->add(kBase, 64 * kKiB, kHeap);
  map_->add(kBase + 64 * kKiB, 64 * kKiB, kOther);
  EXPECT_EQ(map_->find(kBase + 64 * kKiB - 1), kHeap);
  EXPECT_EQ(map_->find(kBase + 64 * kKiB), kOther);
  EXPECT_EQ(map_->find(kBase + 128 * kKiB), nullptr);
}

TEST_F(AddressMapTest, FindsTheRaggedEndsOfALargeRange) {
  map_->add(kBase + kMiB, 5 * kMiB, kHeap);  // half a page, two pages, half a page
  map_->add(kBase + 6 * kMiB, kMiB, kOther);
  EXPECT_EQ(map_->find(kBase + kMiB - 1), nullptr);
  EXPECT_EQ(map_->find(kBase + kMiB), kHeap);
  EXPECT_EQ(map_->find(kBase + 3 * kMiB), kHeap);
  EXPECT_EQ(map_->find(kBase + 6 * kMiB - 1), kHeap);
  EXPECT_EQ(map_->find(kBase + 6 * kMiB), kOther);
}

TEST_F(AddressMapTest, ForgetsWhatWasRemoved) {
  map_->add(kBase + kMiB, 5 * kMiB, kHeap);
  map_->add(kBase + 6 * kMiB, kMiB, kOther);
  map_->remove(kBase + kMiB, 5 * kMiB);
  EXPECT_EQ(map_->find(kBase + kMiB), nullptr);
  EXPECT_EQ(map_->find(kBase + 3 * kMiB), nullptr);
  EXPECT_EQ(map_->find(kBase + 6 * kMiB), kOther);
  map_->add(kBase, 8 * kMiB, kHeap);
  EXPECT_EQ(map_->find(kBase + 5 * kMiB), kHeap);
}

TEST_F(AddressMapTest, SpansLeavesOfTheTable) {
  constexpr std::size_t kLeaf = std::size_t{16} * kGiB;
  map_->add(kBase + kLeaf - 2 * kMiB, 4 * kMiB, kHeap);
  EXPECT_EQ(map_->find(kBase + kLeaf - 1), kHeap);
  EXPECT_EQ(map_->find(kBase + kLeaf), kHeap);
  EXPECT_EQ(map_->find(kBase + kLeaf + 2 * kMiB), nullptr);
}

TEST_F(AddressMapTest, IsUnchangedWhenTheHostHasNoMemory) {
  const auto add_fails = [&](std::uint64_t nth) {
    const support::FailingHostAllocations failing(nth);
    try {
      map_->add(kBase + kMiB, 5 * kMiB, kHeap);
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  };
  std::uint64_t nth = 1;
  for (; add_fails(nth); ++nth) {
    for (Address at = 0; at < 8 * kMiB; at += kMiB) ASSERT_EQ(map_->find(kBase + at), nullptr) << nth;
  }
  EXPECT_GT(nth, 1u) << "it does allocate";
  EXPECT_EQ(map_->find(kBase + kMiB), kHeap);
}

}  // namespace
}  // namespace cistern
