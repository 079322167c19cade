// The exact search against trying everything, on instances small enough for that.
#include "cistern/planning/exact_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cistern/planning/placement.hpp"
#include "support/random.hpp"

namespace cistern::planning {
namespace {

/// Drops each of the buffers that are left onto those already placed, in every order that goes up.
bool some_order_fits(const std::vector<Buffer>& buffers, std::uint64_t capacity,
                     std::vector<std::uint64_t>& tops, std::uint64_t last_bottom = 0) {
  bool all_placed = true;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (tops[i] != 0) continue;
    all_placed = false;
    std::uint64_t bottom = 0;
    for (std::size_t j = 0; j < buffers.size(); ++j) {
      if (tops[j] != 0 && buffers[i].meets(buffers[j])) bottom = std::max(bottom, tops[j]);
    }
    if (bottom < last_bottom || bottom + buffers[i].size > capacity) continue;
    tops[i] = bottom + buffers[i].size;
    if (some_order_fits(buffers, capacity, tops, bottom)) return true;
    tops[i] = 0;
  }
  return all_placed;
}

std::uint64_t least_height(const std::vector<Buffer>& buffers) {
  std::uint64_t height = lower_bound(buffers);
  while (true) {
    std::vector<std::uint64_t> tops(buffers.size(), 0);
    if (some_order_fits(buffers, height, tops)) return height;
    ++height;
  }
}

/// At each moment what lives fills the same height; two at a time die, and others of as many bytes follow. Of
/// twelve buffers drawn so, one set in 1,300 cannot be placed at its lower bound; of buffers drawn one by
/// one, far fewer.
std::vector<Buffer> tight_buffers(support::Random& random, std::size_t count) {
  std::vector<Buffer> buffers;
  std::vector<std::size_t> alive;
  std::uint64_t to_fill = 20;
  for (std::uint64_t moment = 0; buffers.size() < count; ++moment) {
    while (to_fill > 0) {
      const std::uint64_t size = 1 + random.below(to_fill);
      alive.push_back(buffers.size());
      buffers.push_back({moment, moment + 1, size});
      to_fill -= size;
    }
    for (int dying = 0; dying < 2 && !alive.empty(); ++dying) {
      const auto one = alive.begin() + static_cast<std::ptrdiff_t>(random.below(alive.size()));
      to_fill += buffers[*one].size;
      alive.erase(one);
    }
    for (const std::size_t one : alive) buffers[one].upper = moment + 2;
  }
  buffers.resize(count);
  return buffers;
}

std::string text_of(const std::vector<Buffer>& buffers) {
  std::ostringstream out;
  for (const Buffer& b : buffers) out << '{' << b.lower << ", " << b.upper << ", " << b.size << "}, ";
  return out.str();
}

void expect_placed(const std::vector<Buffer>& buffers, const std::vector<std::uint64_t>& offsets,
                   std::uint64_t capacity) {
  ASSERT_EQ(offsets.size(), buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_LE(offsets[i] + buffers[i].size, capacity);
    for (std::size_t j = 0; j < i; ++j) {
      if (buffers[i].lower >= buffers[j].upper || buffers[j].lower >= buffers[i].upper) continue;
      EXPECT_TRUE(offsets[i] + buffers[i].size <= offsets[j] || offsets[j] + buffers[j].size <= offsets[i])
          << "buffers " << i << " and " << j << " overlap";
    }
  }
}

/// Returns the least height.
std::uint64_t expect_exact(const std::vector<Buffer>& buffers) {
  const std::uint64_t least = least_height(buffers);
  const SearchResult found = search_exactly(buffers, least, {});
  EXPECT_EQ(found.end, SearchEnd::kFound);
  expect_placed(buffers, found.offsets, least);
  const SearchResult none = search_exactly(buffers, least - 1, {});
  EXPECT_EQ(none.end, SearchEnd::kImpossible);
  EXPECT_TRUE(none.offsets.empty());
  return least;
}

TEST(ExactSearch, FindsThePlacementIfAndOnlyIfThereIsOne) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    support::Random random(seed);
    const std::vector<Buffer> buffers = tight_buffers(random, 1 + random.below(11));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(buffers));
    expect_exact(buffers);
  }
}

TEST(ExactSearch, ProvesThatTheLowerBoundCannotBeHad) {
  for (const std::uint64_t seed : {1771U, 1859U, 2875U, 5111U}) {
    support::Random random(seed);
    const std::vector<Buffer> buffers = tight_buffers(random, 12);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(buffers));
    EXPECT_GT(expect_exact(buffers), lower_bound(buffers));
  }
}

TEST(ExactSearch, PlacesNothing) {
  EXPECT_EQ(search_exactly({}, 0, {}).end, SearchEnd::kFound);
}

TEST(ExactSearch, GivesUpWhenTheEffortIsSpent) {
  support::Random random(7);
  const std::vector<Buffer> buffers = tight_buffers(random, 300);
  Effort none;
  none.deadline = Effort::Clock::time_point::min();
  EXPECT_EQ(search_exactly(buffers, lower_bound(buffers), none).end, SearchEnd::kGaveUp);
}

}  // namespace
}  // namespace cistern::planning
