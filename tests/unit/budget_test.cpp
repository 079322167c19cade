#include "cistern/core/budget.hpp"

#include <gtest/gtest.h>

namespace cistern {
namespace {

TEST(Budget, HasNoLimitUnlessGivenOne) {
  Budget budget;
  EXPECT_EQ(budget.limit(), kNoLimit);
  EXPECT_TRUE(budget.claim(std::size_t{1} << 60));
  EXPECT_EQ(budget.claimed(), std::size_t{1} << 60);
}

TEST(Budget, ClaimsUpToItsLimitAndNoFurther) {
  Budget budget(100);
  EXPECT_TRUE(budget.claim(60));
  EXPECT_FALSE(budget.claim(41));
  EXPECT_EQ(budget.claimed(), 60u);
  EXPECT_TRUE(budget.claim(40));
  EXPECT_EQ(budget.headroom(), 0u);
  budget.refund(100);
  EXPECT_EQ(budget.headroom(), 100u);
}

TEST(Budget, ClaimsFromTheWholeChainOrFromNoneOfIt) {
  Budget device(100);
  Budget pool(80, &device);
  ASSERT_TRUE(device.claim(50));
  EXPECT_FALSE(pool.claim(60)) << "the device has 50 left";
  EXPECT_EQ(pool.claimed(), 0u);
  EXPECT_EQ(device.claimed(), 50u);
  EXPECT_TRUE(pool.claim(50));
  EXPECT_EQ(device.claimed(), 100u);
  pool.refund(50);
  EXPECT_EQ(device.claimed(), 50u);
}

TEST(Budget, NamesTheTightestLimitOfTheChain) {
  Budget device(100);
  Budget pool(80, &device);
  EXPECT_EQ(pool.tightest_limit(), 80u);
  EXPECT_EQ(pool.headroom(), 80u);
  ASSERT_TRUE(device.claim(50));
  EXPECT_EQ(pool.tightest_limit(), 100u);
  EXPECT_EQ(pool.headroom(), 50u);
}

TEST(Budget, RefusesALimitBelowWhatIsClaimed) {
  Budget budget(100);
  ASSERT_TRUE(budget.claim(60));
  EXPECT_FALSE(budget.set_limit(59));
  EXPECT_EQ(budget.limit(), 100u);
  EXPECT_TRUE(budget.set_limit(60));
  EXPECT_FALSE(budget.claim(1));
  EXPECT_TRUE(budget.set_limit(kNoLimit));
  EXPECT_TRUE(budget.claim(1));
}

}  // namespace
}  // namespace cistern
