#include "cistern/observe/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace cistern {
namespace {

constexpr std::uint64_t kStep = 10;

/// Sizes in steps; which of them were asked about.
struct Device {
  std::set<std::uint64_t> good;
  std::multiset<std::uint64_t> asked;

  FitResult search(std::uint64_t lower_bound, std::uint64_t largest, std::uint64_t most_smaller = 256) {
    return find_smallest_fit(lower_bound * kStep, largest * kStep, kStep, most_smaller,
                             [&](std::uint64_t bytes) {
                               EXPECT_EQ(bytes % kStep, 0U);
                               asked.insert(bytes / kStep);
                               return good.count(bytes / kStep) > 0;
                             });
  }
};

std::set<std::uint64_t> from(std::uint64_t first, std::uint64_t last) {
  std::set<std::uint64_t> sizes;
  for (std::uint64_t size = first; size <= last; ++size) sizes.insert(size);
  return sizes;
}

TEST(Fit, FindsTheSmallestWhereEveryLargerOneDoes) {
  Device device{from(37, 100), {}};
  const FitResult result = device.search(20, 100);
  EXPECT_TRUE(result.fits);
  EXPECT_EQ(result.smallest_bytes, 37 * kStep);
  EXPECT_EQ(result.smaller_tried, 17U);
  EXPECT_EQ(result.smaller_count, 17U);
}

TEST(Fit, FindsAnIslandBelowWhatBisectionFinds) {
  Device device{from(60, 100), {}};
  device.good.insert(23);
  EXPECT_EQ(device.search(20, 100).smallest_bytes, 23 * kStep);
}

TEST(Fit, SaysHowManyOfTheSmallerWereTriedWhereTheyAreTooMany) {
  Device device{from(1000, 2000), {}};
  const FitResult result = device.search(200, 2000, 8);
  EXPECT_EQ(result.smallest_bytes, 1000 * kStep);
  EXPECT_EQ(result.smaller_count, 800U);
  EXPECT_GE(result.smaller_tried, 8U);
  EXPECT_LT(result.smaller_tried, 30U);
  EXPECT_EQ(result.smaller_tried,
            static_cast<std::uint64_t>(std::distance(device.asked.begin(), device.asked.lower_bound(1000))));
}

TEST(Fit, AsksAboutNoSizeTwice) {
  Device device{from(60, 100), {}};
  device.good.insert(23);
  device.search(20, 100);
  for (const std::uint64_t size : device.asked) EXPECT_EQ(device.asked.count(size), 1U) << size;
}

TEST(Fit, TheLowerBoundItselfMayDo) {
  Device device{from(1, 100), {}};
  const FitResult result = device.search(20, 100);
  EXPECT_EQ(result.smallest_bytes, 20 * kStep);
  EXPECT_EQ(result.smaller_count, 0U);
}

TEST(Fit, NothingFitsWhereTheLargestDoesNot) {
  Device device{from(20, 99), {}};
  EXPECT_FALSE(device.search(20, 100).fits);
  EXPECT_FALSE(device.search(20, 10).fits);
}

}  // namespace
}  // namespace cistern
