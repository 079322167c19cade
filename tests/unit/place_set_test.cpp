#include "cistern/core/place_set.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <set>

#include "support/random.hpp"

namespace cistern {
namespace {

TEST(PlaceSet, KnowsTheLargestMemberUpToANumberAsAnOrderedSetDoes) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 4096u, 5000u, 300'000u}) {
    support::Random random(size);
    PlaceSet set(size);
    std::set<std::size_t> expected;
    for (int step = 0; step < 20'000; ++step) {
      const std::size_t number = random.below(size);
      if (random.one_in(2)) {
        set.insert(number);
        expected.insert(number);
      } else {
        set.erase(number);
        expected.erase(number);
      }
      const std::size_t upto = random.below(size);
      const auto after = expected.upper_bound(upto);
      const auto found = set.largest_up_to(upto);
      ASSERT_EQ(found.has_value(), after != expected.begin()) << "size " << size << ", step " << step;
      if (found) {
        ASSERT_EQ(*found, *std::prev(after)) << "size " << size << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace cistern
