#include "cistern/core/free_index.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "cistern/base/units.hpp"
#include "support/random.hpp"

namespace cistern {
namespace {

class FreeIndexTest : public ::testing::Test {
 protected:
  BlockIndex add(std::size_t bytes, Address address) {
    table_.prepare(1);
    const BlockIndex index = table_.create(Block(address, bytes, 0, BlockState::kFree));
    free_.insert(table_, index);
    return index;
  }

  std::size_t least_fit(const std::vector<BlockIndex>& blocks, std::size_t bytes) const {
    std::size_t least = 0;
    for (const BlockIndex index : blocks) {
      const std::size_t candidate = table_[index].bytes();
      if (candidate >= bytes && (least == 0 || candidate < least)) least = candidate;
    }
    return least;
  }

  BlockTable table_;
  FreeIndex free_;
};

TEST_F(FreeIndexTest, FindsNothingWhenEmpty) {
  EXPECT_EQ(free_.fit(table_, 512), kNoBlock);
  EXPECT_EQ(free_.fit_exactly(table_, 512), kNoBlock);
  EXPECT_EQ(free_.largest_bytes(table_), 0u);
}

TEST_F(FreeIndexTest, PrefersTheSmallestThatFits) {
  add(1 << 20, 0x100000);
  const BlockIndex small = add(4096, 0x200000);
  const BlockIndex tight = add(2048, 0x300000);
  EXPECT_EQ(free_.fit(table_, 2048), tight);
  EXPECT_EQ(free_.fit(table_, 2049), small);
  EXPECT_EQ(free_.largest_bytes(table_), std::size_t{1} << 20);
}

TEST_F(FreeIndexTest, KnowsTheNextAndTheLastBinThatIsNotEmpty) {
  EXPECT_EQ(free_.last_bin(kBinCount - 1), kBinCount);
  add(4096, 0x1000);
  add(std::size_t{1} << 40, 0x200000);
  const std::uint32_t low = bin_of(4096), high = bin_of(std::size_t{1} << 40);
  EXPECT_EQ(free_.next_bin(0), low);
  EXPECT_EQ(free_.next_bin(low), low);
  EXPECT_EQ(free_.next_bin(low + 1), high);
  EXPECT_EQ(free_.next_bin(high + 1), kBinCount);
  EXPECT_EQ(free_.last_bin(kBinCount - 1), high);
  EXPECT_EQ(free_.last_bin(high), high);
  EXPECT_EQ(free_.last_bin(high - 1), low);
  EXPECT_EQ(free_.last_bin(low - 1), kBinCount);
}

TEST_F(FreeIndexTest, TakesTheNewestOrLookingExactlyTheLowestOfThoseAlike) {
  add(4096, 0x3000);
  const BlockIndex lowest = add(4096, 0x1000);
  const BlockIndex newest = add(4096, 0x2000);
  EXPECT_EQ(free_.fit(table_, 4096), newest);
  EXPECT_EQ(free_.fit_exactly(table_, 4096), lowest);
}

TEST_F(FreeIndexTest, LooksAtTheNewestOfTheOwnBinOnly) {
  const BlockIndex deep = add(4608 - 64, 0x9000);
  add(4096, 0x1000);
  EXPECT_EQ(free_.fit(table_, 4500), kNoBlock) << "behind the newest";
  EXPECT_EQ(free_.fit_exactly(table_, 4500), deep);
  const BlockIndex larger = add(64 * 1024, 0x20000);
  EXPECT_EQ(free_.fit(table_, 4500), larger);
  EXPECT_EQ(free_.fit_exactly(table_, 4500), deep);
}

TEST_F(FreeIndexTest, TakesFromTheNextBinThatIsNotEmpty) {
  const BlockIndex far = add(std::size_t{1} << 40, 0x100000);
  EXPECT_EQ(free_.fit(table_, 512), far);
  const BlockIndex near = add(std::size_t{1} << 30, 0x200000);
  EXPECT_EQ(free_.fit(table_, 512), near);
}

TEST_F(FreeIndexTest, KeepsABitPerBinThatIsNotEmpty) {
  const BlockIndex index = add(4096, 0x1000);
  EXPECT_TRUE(free_.bit(bin_of(4096)));
  free_.remove(table_, index);
  EXPECT_FALSE(free_.bit(bin_of(4096)));
  EXPECT_EQ(free_.fit(table_, 512), kNoBlock);
}

TEST_F(FreeIndexTest, ExactFitAgreesWithSearchingEverything) {
  support::Random random(3);
  std::vector<BlockIndex> blocks;
  for (int round = 0; round < 20'000; ++round) {
    if (blocks.size() < 50 || random.one_in(2)) {
      blocks.push_back(add(round_up(random.log_uniform(64, 1 << 24), 64), 64 * (1 + random.below(1 << 20))));
    } else {
      const std::size_t at = random.below(blocks.size());
      free_.remove(table_, blocks[at]);
      table_.destroy(blocks[at]);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const std::size_t wanted = random.log_uniform(64, 1 << 24);
    const std::size_t least = least_fit(blocks, wanted);
    const BlockIndex exact = free_.fit_exactly(table_, wanted);
    ASSERT_EQ(exact == kNoBlock ? 0 : table_[exact].bytes(), least);
    const BlockIndex found = free_.fit(table_, wanted);
    ASSERT_TRUE(found == kNoBlock || table_[found].bytes() >= wanted);
  }
}

}  // namespace
}  // namespace cistern
