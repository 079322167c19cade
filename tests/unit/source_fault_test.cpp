// I12 when the source does not refuse but throws, as it does when a driver breaks: nothing but counters changes.
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/world.hpp"

namespace cistern {
namespace {

using support::World;
using support::WorldOptions;

constexpr StreamId kA{1};

class SourceFault : public ::testing::TestWithParam<bool> {
 protected:
  SourceFault() {
    WorldOptions options;
    options.source.whole_only = GetParam();
    options.source.range_step_bytes = 64 * kMiB;
    options.allocator.limit = support::bytes(48 * kMiB);
    world_.emplace(options);
  }

  /// The nth reserve or commit from now on throws; false when there were fewer.
  bool struck_at(std::uint64_t nth, std::size_t bytes) {
    std::uint64_t calls = 0;
    World& world = *world_;
    world.source.refuse_when([&calls, nth](const SourceCall&) -> bool {
      if (++calls == nth) throw std::runtime_error("the driver broke");
      return false;
    });
    const std::size_t reserved = world.reserved();
    bool thrown = false;
    try {
      const auto grant = world.try_allocate(bytes, kA);
      EXPECT_TRUE(grant);
      if (grant) world.free(grant->address);
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    world.source.refuse_when({});
    world->audit();
    EXPECT_TRUE(!thrown || world.reserved() <= reserved) << "only a remap may have changed it";
    EXPECT_EQ(world.source.held_bytes(), world.reserved());
    return thrown;
  }

  std::optional<World> world_;
};

TEST_P(SourceFault, ChangesNothingWhereverItStrikesAndTheSameRequestSucceedsAfterwards) {
  for (std::uint64_t nth = 1; struck_at(nth, 24 * kMiB); ++nth) {
    EXPECT_LT(nth, 10u);
    world_->free(world_->allocate(24 * kMiB, kA));
    world_->trim();
  }
  // The whole limit can still be claimed: no budget was lost.
  world_->trim();
  EXPECT_TRUE(world_->try_allocate(48 * kMiB, kA));
}

TEST_P(SourceFault, AGrowthOverHolesIsRolledBack) {
  // Live granules with holes between them: one growth commits several pieces.
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(world_->allocate(2 * kMiB, kA));
  for (std::size_t i = 0; i < 8; i += 2) world_->free(blocks[i]);
  world_->trim();
  world_->free(blocks[1]);
  for (std::uint64_t nth = 1; struck_at(nth, 6 * kMiB); ++nth) EXPECT_LT(nth, 10u);
  EXPECT_TRUE(world_->try_allocate(6 * kMiB, kA));
}

INSTANTIATE_TEST_SUITE_P(Sources, SourceFault, ::testing::Bool(),
                         [](const auto& kind) { return std::string(kind.param ? "whole" : "granules"); });

}  // namespace
}  // namespace cistern
