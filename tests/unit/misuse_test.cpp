// Frees of what is not live (I9), and calls that break a precondition.
#include <gtest/gtest.h>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::World;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

TEST(Misuse, ADoubleFreeIsCaught) {
  World world;
  const Address block = world.allocate(1000, kA);
  EXPECT_EQ(world.free(block), FreeOutcome::kFreed);
  EXPECT_EQ(world.free(block), FreeOutcome::kNotLive);
}

TEST(Misuse, ADoubleFreeIsCaughtAfterTheBlockMergedAndItsMemoryWentBack) {
  World world;
  const Address first = world.allocate(4 * kMiB, kA);
  const Address second = world.allocate(4 * kMiB, kA);
  world.free(first);
  world.free(second);
  EXPECT_EQ(world.free(second), FreeOutcome::kNotLive);
  world.trim();
  EXPECT_EQ(world.free(first), FreeOutcome::kNotLive);
}

TEST(Misuse, AddressesThatWereNeverGrantedAreCaught) {
  World world;
  const Address block = world.allocate(4096, kA);
  for (const Address address : {Address{0}, Address{1}, ~Address{0}, block - 1, block + 1, block + 512,
                                block + 4096, Address{1} << 47, Address{1} << 63}) {
    EXPECT_EQ(world.free(address), FreeOutcome::kNotLive) << address;
    EXPECT_FALSE(world->record_stream(address, kB)) << address;
  }
  EXPECT_EQ(world->stats().allocations.current, 1u);
  EXPECT_EQ(world.free(block), FreeOutcome::kFreed);
}

TEST(Misuse, OnlyLiveGrantsAreFound) {
  World world;
  const Address block = world.allocate(1000, kA);
  ASSERT_TRUE(world->find(block));
  EXPECT_EQ(world->find(block)->requested_bytes, 1000u);
  EXPECT_EQ(world->find(block)->granted_bytes, 1024u);
  EXPECT_FALSE(world->find(block + 512));
  world.free(block);
  EXPECT_FALSE(world->find(block));
}

TEST(Misuse, ABadFreeChangesNothing) {
  World world;
  world.allocate(4096, kA);
  const std::string before = support::to_text(world->snapshot());
  world.free(12345);
  EXPECT_EQ(support::to_text(world->snapshot()), before);
}

TEST(MisuseDeathTest, RequestsOfNoBytesOrOddAlignmentEndTheProcess) {
  World world;
  EXPECT_DEATH(static_cast<void>(world->allocate({.bytes = 0})), "misuse");
  EXPECT_DEATH(static_cast<void>(world->allocate({.bytes = 1, .alignment = 4 * kMiB})), "misuse");
  EXPECT_DEATH(static_cast<void>(world->allocate({.bytes = 1, .alignment = 3000})), "misuse");
  EXPECT_DEATH(static_cast<void>(world->allocate({.bytes = 1, .pool = PoolId{7}})), "misuse");
}

TEST(MisuseDeathTest, DestructionWithLiveBlocksEndsTheProcess) {
  EXPECT_DEATH(
      {
        SimulatedSource source;
        CachingAllocator allocator({}, source);
        static_cast<void>(allocator.allocate({.bytes = 1}));
      },
      "misuse");
}

}  // namespace
}  // namespace cistern
