// Which memory a trim takes and which a miss adds, against trying everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/random.hpp"
#include "support/world.hpp"

namespace cistern {
namespace {

using support::Random;
using support::World;
using support::WorldOptions;

constexpr std::size_t kGranule = 2 * kMiB;

WorldOptions without_remap() {
  WorldOptions options;
  options.allocator.remap_slack = 1.0;
  return options;
}

/// Live blocks of all sizes, between them free ones, and on granule borders perhaps holes.
class Fragments {
 public:
  explicit Fragments(std::uint64_t seed) : random(seed), world(without_remap()) {
    for (int i = 0; i < 100; ++i) add(draw_bytes());
    free_some(60);
  }
  ~Fragments() {
    for (const Address address : live_) world.free(address);
  }
  Fragments(const Fragments&) = delete;
  Fragments& operator=(const Fragments&) = delete;

  std::size_t draw_bytes() { return random.log_uniform(64 * kKiB, 12 * kMiB); }
  void add(std::size_t bytes) { live_.push_back(world.allocate(bytes)); }
  void free_some(int count) {
    for (; count > 0 && !live_.empty(); --count) {
      std::swap(live_[random.below(live_.size())], live_.back());
      world.free(live_.back());
      live_.pop_back();
    }
  }

  Random random;
  World world;

 private:
  std::vector<Address> live_;
};

/// Bytes of whole granules in each free block that has some, in rising order.
std::vector<std::size_t> idle_bytes(World& world) {
  std::vector<std::size_t> idle;
  for (const RangeInfo& range : world->snapshot()) {
    for (const BlockInfo& block : range.blocks) {
      const Address begin = round_up(block.address, kGranule);
      const Address end = round_down(block.address + block.bytes, kGranule);
      if (block.state == BlockState::kFree && begin < end) idle.push_back(end - begin);
    }
  }
  std::sort(idle.begin(), idle.end());
  return idle;
}

/// Takes the smallest that is enough, else the largest, until there is as much as wanted.
std::size_t take(std::vector<std::size_t>& idle, std::size_t wanted) {
  std::size_t taken = 0;
  while (taken < wanted && !idle.empty()) {
    const std::size_t rest = wanted - taken;
    const auto enough = std::lower_bound(idle.begin(), idle.end(), rest);
    const auto chosen = enough == idle.end() ? idle.end() - 1 : enough;
    const std::size_t piece = std::min(*chosen, round_up(rest, kGranule));
    *chosen -= piece;
    if (*chosen == 0) idle.erase(chosen);
    std::sort(idle.begin(), idle.end());
    taken += piece;
  }
  return taken;
}

/// The fewest new bytes with which the range has room for `bytes`; nothing if it has not, however much is new. A hole
/// that is enough by itself is not joined with the free block behind it: that asks for less now and more later.
std::optional<std::size_t> fewest_new_bytes(const RangeInfo& range, std::size_t bytes) {
  const auto new_bytes_at = [&](Address begin) -> std::optional<std::size_t> {
    const Address end = begin + bytes;
    if (begin < range.address || end > range.address + range.bytes) return std::nullopt;
    std::size_t sum = 0;
    for (const BlockInfo& block : range.blocks) {
      const Address from = std::max(begin, block.address);
      const Address to = std::min(end, block.address + block.bytes);
      if (from >= to) continue;
      if (block.state == BlockState::kHole && block.bytes >= bytes && from == begin && to < end) return std::nullopt;
      if (block.state == BlockState::kHole) sum += round_up(to, kGranule) - round_down(from, kGranule);
      else if (block.state != BlockState::kFree) return std::nullopt;
    }
    return sum;
  };
  std::optional<std::size_t> fewest;
  for (const BlockInfo& block : range.blocks) {
    const Address last = block.state == BlockState::kHole ? std::min(block.bytes, 32 * kMiB) : 0;
    for (Address at = block.address; at <= block.address + last; at += kGranule) {
      for (const Address begin : {at, at - bytes, block.address + block.bytes - bytes}) {
        const auto found = new_bytes_at(begin);
        if (found && (!fewest || *found < *fewest)) fewest = found;
      }
    }
  }
  return fewest;
}

bool has_room(const RangeInfo& range, std::size_t bytes) {
  return std::any_of(range.blocks.begin(), range.blocks.end(), [&](const BlockInfo& block) {
    return block.state == BlockState::kFree && block.bytes >= bytes;
  });
}

TEST(Claims, ATrimTakesTheSmallestIdleBlockThatIsEnoughAndElseTheLargest) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Fragments fragments(seed);
    for (int round = 0; round < 10; ++round) {
      std::vector<std::size_t> idle = idle_bytes(fragments.world);
      const std::size_t wanted = fragments.random.log_uniform(1, 40 * kMiB);
      const std::size_t taken = take(idle, wanted);
      EXPECT_EQ(fragments.world.trim(fragments.world.reserved() - wanted), taken) << "seed " << seed;
      EXPECT_EQ(idle_bytes(fragments.world), idle) << "seed " << seed;
      fragments.free_some(2);
    }
  }
}

TEST(Claims, AMissAddsTheFewestBytes) {
  std::size_t misses = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Fragments fragments(seed);
    for (int round = 0; round < 40; ++round) {
      if (round % 8 == 0) {
        fragments.free_some(6);
        fragments.world.trim(fragments.random.below(fragments.world.reserved()));
      }
      const std::size_t bytes = fragments.draw_bytes();
      const std::size_t granted = round_up(bytes, std::size_t{512});
      std::optional<std::size_t> fewest;
      for (const RangeInfo& range : fragments.world->snapshot()) {
        if (range.small != (bytes < kMiB)) continue;
        fewest = has_room(range, granted) ? 0 : fewest_new_bytes(range, granted);
      }
      const std::size_t before = fragments.world.reserved();
      fragments.add(bytes);
      if (!fewest) continue;  // there was no range yet
      misses += *fewest != 0;
      EXPECT_EQ(fragments.world.reserved() - before, *fewest) << "seed " << seed << ", " << bytes << " bytes";
    }
  }
  EXPECT_GT(misses, 200u);
}

TEST(Claims, AHoleBehindManyOfItsSizeIsFoundIfNoOtherWillDo) {
  WorldOptions options = without_remap();
  options.source.range_step_bytes = 1022 * kMiB;
  World world(options);
  const Address first = world.allocate(6 * kMiB);
  world.allocate(2 * kMiB);
  std::vector<Address> shorter;
  for (int i = 0; i < 140; ++i) {
    shorter.push_back(world.allocate(4 * kMiB));
    world.allocate(2 * kMiB);
  }
  world.allocate(1022 * kMiB - 8 * kMiB - 140 * 6 * kMiB);
  world.free(first);
  EXPECT_EQ(world.trim(), 6 * kMiB);
  for (const Address address : shorter) world.free(address);
  EXPECT_EQ(world.trim(), 140 * 4 * kMiB);
  EXPECT_EQ(world.allocate(6 * kMiB), first);
  EXPECT_EQ(world.source.cost(SourceVerb::kReserve).calls, 1u);
}

}  // namespace
}  // namespace cistern
