// What a person reads when memory runs out. The text is golden: change it on purpose, here.
#include "cistern/core/failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::bytes;
using support::World;
using support::world_with;
using ::testing::HasSubstr;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

TEST(Failure, UnderALimitSaysEverythingAPersonWouldAsk) {
  World world(world_with({.limit = bytes(64 * kMiB)}));
  world.allocate(30 * kMiB, kA);
  for (int i = 0; i < 3; ++i) world.allocate(4 * kMiB, kA);
  const Address hole = world.allocate(3 * kMiB, kA);
  world.allocate(kMiB, kA);
  world.free(hole);
  const auto refused = world.try_allocate(24 * kMiB, kA);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().explain(),
      "cistern: out of memory on device 0 (simulated): the limit of 64 MiB leaves no room for 24 MiB more.\n"
      "  asked             24 MiB (25165824 bytes)\n"
      "  largest free      1 MiB\n"
      "  reserved          44 MiB (in use 43 MiB, waiting for streams 0 B, free 1 MiB)\n"
      "  limit             64 MiB, device capacity 1 GiB\n"
      "  tried             fit, reap, grow, trim, wait\n"
      "  largest holders:\n"
      "    30 MiB in 1 block of 30 MiB\n"
      "    12 MiB in 3 blocks of 4 MiB\n"
      "    1 MiB in 1 block of 1 MiB\n"
      "  what would help   a limit of 68 MiB would have served this request\n");
}

TEST(Failure, NamesALimitThatWouldHaveServedAndItDoes) {
  World world(world_with({.limit = bytes(16 * kMiB)}));
  world.allocate(10 * kMiB, kA);
  const auto refused = world.try_allocate(12 * kMiB, kA);
  ASSERT_FALSE(refused);
  ASSERT_TRUE(world->set_limit(refused.error().sufficient_limit_bytes - 2 * kMiB));
  EXPECT_FALSE(world.try_allocate(12 * kMiB, kA)) << "it is the least such limit";
  ASSERT_TRUE(world->set_limit(refused.error().sufficient_limit_bytes));
  EXPECT_TRUE(world.try_allocate(12 * kMiB, kA));
}

TEST(Failure, TellsTheDeviceFromTheLimit) {
  World world;
  world.allocate(800 * kMiB, kA);
  const auto refused = world.try_allocate(500 * kMiB, kA);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FailureCode::kSourceRefused);
  EXPECT_THAT(refused.error().cause(), HasSubstr("simulated memory has no 500 MiB left"));
  EXPECT_THAT(refused.error().explain(), HasSubstr("limit             none"));
}

TEST(Failure, SaysWhenNothingCouldEverHelp) {
  World world;
  const auto refused = world.try_allocate(2 * kGiB, kA);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FailureCode::kTooLarge);
  EXPECT_THAT(refused.error().cause(), HasSubstr("more than the device has in all (1 GiB)"));
  EXPECT_EQ(world.source_calls(), 0u) << "nothing was tried";
}

TEST(Failure, SizesBeyondAllReasonAreTooLargeToo) {
  World world;
  for (const std::size_t size : {std::size_t{1} << 62, (std::size_t{1} << 62) + 1, ~std::size_t{0}}) {
    const auto refused = world.try_allocate(size, kA);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, FailureCode::kTooLarge);
    EXPECT_EQ(refused.error().asked_bytes, size);
  }
}

TEST(Failure, CountsWhatWaitsForAStreamThatCannotBeAsked) {
  World world(world_with({.limit = bytes(4 * kMiB)}));
  const Address block = world.allocate(4 * kMiB, kA);
  world->record_stream(block, kB);
  world.queue(kB);
  world.free(block);
  world.fences.set_capturing(true);
  const auto refused = world.try_allocate(4 * kMiB, kA);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().pending_bytes, 4 * kMiB);
  EXPECT_THAT(refused.error().explain(), HasSubstr("waiting for streams 4 MiB"));
}

}  // namespace
}  // namespace cistern
