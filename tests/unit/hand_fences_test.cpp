// The tests lean on HandFences and the validator, so these are tested too.
#include "support/hand_fences.hpp"

#include <gtest/gtest.h>

namespace cistern::support {
namespace {

constexpr StreamId kA{1};
constexpr StreamId kB{2};
constexpr StreamId kC{3};

TEST(HandFences, AFenceIsDoneOnceTheWorkBeforeItIs) {
  HandFences fences;
  fences.queue(kA);
  const FenceId fence = fences.record(kA);
  fences.queue(kA);
  EXPECT_EQ(fences.query(fence), FenceState::kNotYet);
  fences.complete(kA);
  EXPECT_EQ(fences.query(fence), FenceState::kDone);
  EXPECT_EQ(fences.completed(kA), 1u);
  EXPECT_EQ(fences.queued(kA), 2u);
}

TEST(HandFences, AnIdleStreamsFenceIsDoneAtOnce) {
  HandFences fences;
  EXPECT_EQ(fences.query(fences.record(kA)), FenceState::kDone);
}

TEST(HandFences, WaitingCompletesNoMoreThanNeeded) {
  HandFences fences;
  fences.queue(kA);
  const FenceId fence = fences.record(kA);
  fences.queue(kA);
  fences.wait(fence);
  EXPECT_EQ(fences.completed(kA), 1u);
  EXPECT_EQ(fences.wait_count(), 1u);
}

TEST(HandFences, OrderedWorkCompletesAfterWhatItWaitsFor) {
  HandFences fences;
  fences.queue(kA);
  const FenceId a = fences.record(kA);
  ASSERT_TRUE(fences.order_after(kB, a));
  const FenceId b = fences.record(kB);
  ASSERT_TRUE(fences.order_after(kC, b));
  EXPECT_EQ(fences.query(a), FenceState::kNotYet);
  fences.complete(kC);
  EXPECT_EQ(fences.query(a), FenceState::kDone);
  EXPECT_EQ(fences.query(b), FenceState::kDone);
}

TEST(HandFences, CannotBeAskedWhileCapturing) {
  HandFences fences;
  const FenceId fence = fences.record(kA);
  fences.set_capturing(true);
  EXPECT_EQ(fences.query(fence), FenceState::kCannotAskNow);
  EXPECT_FALSE(fences.order_after(kB, fence));
  fences.set_capturing(false);
  EXPECT_EQ(fences.query(fence), FenceState::kDone);
}

TEST(HandFences, CountsFencesThatWereNotReleased) {
  HandFences fences;
  const FenceId fence = fences.record(kA);
  fences.record(kB);
  fences.release(fence);
  EXPECT_EQ(fences.held_count(), 1u);
  EXPECT_DEATH(fences.query(fence), "misuse");
}

}  // namespace
}  // namespace cistern::support
