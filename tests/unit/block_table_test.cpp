#include "cistern/core/block_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "support/host_allocations.hpp"
#include "support/random.hpp"

namespace cistern {
namespace {

Block block_at(Address address) {
  return {address, 512, 0, BlockState::kActive};
}

TEST(BlockTable, FindsWhatWasEnteredAndNothingElse) {
  BlockTable table;
  table.prepare(2);
  const BlockIndex a = table.create(block_at(4096));
  const BlockIndex b = table.create(block_at(8192));
  table.insert(a, 4096);
  EXPECT_EQ(table.find(4096).block, a);
  EXPECT_EQ(table.find(8192).block, kNoBlock) << "created, but not entered";
  table.insert(b, 8192);
  table.erase(table.find(4096), 4096);
  EXPECT_EQ(table.find(4096).block, kNoBlock);
  EXPECT_EQ(table.find(8192).block, b);
  EXPECT_EQ(table.live_count(), 1u);
}

TEST(BlockTable, ReusesDestroyedRecords) {
  BlockTable table;
  table.prepare(1);
  const BlockIndex first = table.create(block_at(4096));
  table.destroy(first);
  EXPECT_EQ(table.block_count(), 0u);
  EXPECT_EQ(table.create(block_at(512)), first);
  EXPECT_EQ(table.block_count(), 1u);
}

TEST(BlockTable, KeepsItsPromiseOfRoom) {
  BlockTable table;
  table.prepare(1000);
  ASSERT_TRUE(table.ready_for(1000));
  const std::uint64_t before = support::host_allocation_count();
  for (Address i = 1; i <= 1000; ++i) table.insert(table.create(block_at(i * 512)), i * 512);
  EXPECT_EQ(support::host_allocation_count(), before);
}

TEST(BlockTable, IsUnchangedWhenTheHostHasNoMemory) {
  BlockTable table;
  table.prepare(4);
  std::vector<BlockIndex> blocks;
  while (table.ready_for(1)) {
    blocks.push_back(table.create(block_at((blocks.size() + 1) * 64)));
    table.insert(blocks.back(), blocks.size() * 64);
  }
  const auto prepare_fails = [&](std::uint64_t nth) {
    const support::FailingHostAllocations failing(nth);
    try {
      table.prepare(1);
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  };
  std::uint64_t nth = 1;
  for (; prepare_fails(nth); ++nth) {
    EXPECT_FALSE(table.ready_for(1));
    for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(table.find((i + 1) * 64).block, blocks[i]);
  }
  EXPECT_GT(nth, 1u) << "it does allocate";
  EXPECT_TRUE(table.ready_for(1));
}

TEST(BlockTable, AgreesWithAMapThroughChurn) {
  BlockTable table;
  std::map<Address, BlockIndex> model;
  support::Random random(7);
  for (int i = 0; i < 200'000; ++i) {
    const Address address = 64 * (1 + random.below(4000));
    const auto known = model.find(address);
    ASSERT_EQ(table.find(address).block, known == model.end() ? kNoBlock : known->second);
    if (known == model.end()) {
      table.prepare(1);
      const BlockIndex index = table.create(block_at(address));
      table.insert(index, address);
      model.emplace(address, index);
    } else if (random.below(4000) < model.size() * 2) {
      table.erase(table.find(address), address);
      table.destroy(known->second);
      model.erase(known);
    }
    ASSERT_EQ(table.live_count(), model.size());
  }
}

}  // namespace
}  // namespace cistern
