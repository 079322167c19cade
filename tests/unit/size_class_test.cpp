#include "cistern/core/size_class.hpp"

#include <gtest/gtest.h>

#include "support/random.hpp"

namespace cistern {
namespace {

TEST(SizeClass, HasEightBinsPerPowerOfTwo) {
  EXPECT_EQ(bin_of(1024), bin_of(512) + 8);
  EXPECT_EQ(bin_of(512 + 64), bin_of(512) + 1);
  EXPECT_EQ(bin_of(512 + 63), bin_of(512));
  EXPECT_EQ(bin_of(1023), bin_of(1024) - 1);
}

TEST(SizeClass, FloorIsTheLeastSizeOfItsBin) {
  for (std::uint32_t bin = bin_of(8); bin < kBinCount - kBinsPerPowerOfTwo; ++bin) {
    EXPECT_EQ(bin_of(bin_floor_bytes(bin)), bin);
    EXPECT_EQ(bin_of(bin_floor_bytes(bin) * 2), bin + kBinsPerPowerOfTwo);
  }
}

TEST(SizeClass, IsMonotonicAndInBounds) {
  support::Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t bytes = random.log_uniform(8, std::uint64_t{1} << 63);
    EXPECT_LE(bin_of(bytes), bin_of(bytes + 1));
    EXPECT_LT(bin_of(bytes), kBinCount);
    EXPECT_LE(bin_floor_bytes(bin_of(bytes)), bytes);
  }
  EXPECT_LT(bin_of(~std::size_t{0}), kBinCount);
}

}  // namespace
}  // namespace cistern
