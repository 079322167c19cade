// Who watches the watchman: for each promise the validator keeps an eye on, a recording that breaks it.
#include "support/validator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cistern/base/units.hpp"

namespace cistern::support {
namespace {

using ::testing::HasSubstr;

constexpr Address kBase = Address{1} << 40;
constexpr StreamId kA{1};
constexpr StreamId kB{2};

class ValidatorTest : public ::testing::Test {
 protected:
  ValidatorTest() {
    traits_.granule_bytes = 2 * kMiB;
    validator_ = std::make_unique<Validator>(traits_, 512, &fences_);
    tell(EventKind::kReserve, kBase, 64 * kMiB);
    tell(EventKind::kCommit, kBase, 4 * kMiB);
  }

  void tell(EventKind kind, Address address, std::size_t bytes, std::size_t granted = 0, StreamId stream = kA,
            FenceId fence = {}, std::uint8_t pool = 0) {
    Event event;
    event.sequence = sequence_++;
    event.kind = kind;
    event.address = address;
    event.bytes = bytes;
    event.granted_bytes = granted;
    event.stream = stream.value;
    event.fence = fence.value;
    event.pool = pool;
    validator_->consume({&event, 1});
  }
  void grant(Address address, std::size_t bytes, StreamId stream = kA) {
    tell(EventKind::kAllocate, address, bytes, round_up(bytes, 512), stream);
  }
  void give(Address address, std::size_t bytes) {
    tell(EventKind::kFree, address, bytes, round_up(bytes, 512));
  }
  void tell_truth() { tell(EventKind::kMark, 0, kTruthMark + fences_.log_size()); }
  std::string broken() const { return validator_->violation().value_or("nothing"); }

  SourceTraits traits_;
  HandFences fences_;
  std::unique_ptr<Validator> validator_;
  std::uint64_t sequence_ = 0;
};

TEST_F(ValidatorTest, AcceptsAnHonestRecording) {
  grant(kBase, 1000);
  grant(kBase + 1024, 512);
  give(kBase, 1000);
  grant(kBase, 700);
  give(kBase, 700);
  give(kBase + 1024, 512);
  tell(EventKind::kDecommit, kBase, 4 * kMiB);
  tell(EventKind::kUnreserve, kBase, 64 * kMiB);
  validator_->finish();
  EXPECT_EQ(broken(), "nothing");
  EXPECT_EQ(validator_->stats().requested.peak, 1512u);
  EXPECT_EQ(validator_->stats().reserved.current, 0u);
}

TEST_F(ValidatorTest, PutsEventsOfSeveralHeapsInOrder) {
  std::vector<Event> events(2);
  events[0].sequence = sequence_ + 1;
  events[0].kind = EventKind::kFree;
  events[1].sequence = sequence_;
  events[1].kind = EventKind::kAllocate;
  for (Event& event : events) {
    event.address = kBase;
    event.bytes = event.granted_bytes = 512;
    event.stream = kA.value;
  }
  validator_->consume(events);
  validator_->finish();
  EXPECT_EQ(broken(), "nothing");
}

TEST_F(ValidatorTest, NoticesAMissingEvent) {
  ++sequence_;
  grant(kBase, 512);
  validator_->finish();
  EXPECT_THAT(broken(), HasSubstr("never delivered"));
}

TEST_F(ValidatorTest, NoticesOverlap) {
  grant(kBase, 1024);
  grant(kBase + 512, 512);
  EXPECT_THAT(broken(), HasSubstr("I7: overlaps"));
}

TEST_F(ValidatorTest, NoticesAGrantWithoutMemory) {
  grant(kBase + 4 * kMiB - 512, 1024);
  EXPECT_THAT(broken(), HasSubstr("I7: granted without memory"));
}

TEST_F(ValidatorTest, NoticesAMissedAlignment) {
  grant(kBase + 8, 512);
  EXPECT_THAT(broken(), HasSubstr("I7: address"));
}

TEST_F(ValidatorTest, NoticesAGrantTooSmall) {
  tell(EventKind::kAllocate, kBase, 1024, 512);
  EXPECT_THAT(broken(), HasSubstr("I7: granted less"));
}

TEST_F(ValidatorTest, NoticesADoubleFree) {
  grant(kBase, 512);
  give(kBase, 512);
  give(kBase, 512);
  EXPECT_THAT(broken(), HasSubstr("I9"));
}

TEST_F(ValidatorTest, NoticesAGrantToAnotherStreamTooEarly) {
  grant(kBase, 512, kA);
  fences_.queue(kA);
  tell_truth();
  give(kBase, 512);
  grant(kBase, 512, kB);
  EXPECT_THAT(broken(), HasSubstr("I8"));
}

TEST_F(ValidatorTest, AcceptsAGrantToAnotherStreamOnceItsWorkIsDone) {
  grant(kBase, 512, kA);
  fences_.queue(kA);
  tell_truth();
  give(kBase, 512);
  fences_.complete(kA);
  tell_truth();
  grant(kBase, 512, kB);
  EXPECT_EQ(broken(), "nothing");
}

TEST_F(ValidatorTest, AcceptsAGrantToAStreamOrderedBehindThatWork) {
  grant(kBase, 512, kA);
  fences_.queue(kA);
  tell_truth();
  give(kBase, 512);
  const FenceId fence = fences_.record(kA);
  tell(EventKind::kFenceRecorded, 0, 0, 0, kA, fence);
  fences_.order_after(kB, fence);
  tell(EventKind::kFenceOrdered, 0, 0, 0, kB, fence);
  grant(kBase, 512, kB);
  EXPECT_EQ(broken(), "nothing");
}

TEST_F(ValidatorTest, NoticesAPendingBlockThatIsReadyTooEarly) {
  grant(kBase, 512, kA);
  tell(EventKind::kRecordStream, kBase, 0, 0, kB);
  fences_.queue(kB);
  tell_truth();
  give(kBase, 512);
  EXPECT_EQ(validator_->stats().active.current, 512u);
  tell(EventKind::kBlockReady, kBase, 512, 512);
  EXPECT_THAT(broken(), HasSubstr("I8: ready"));
}

TEST_F(ValidatorTest, NoticesAFenceSaidToBeDoneBeforeItIs) {
  fences_.queue(kA);
  tell_truth();
  const FenceId fence = fences_.record(kA);
  tell(EventKind::kFenceRecorded, 0, 0, 0, kA, fence);
  tell(EventKind::kFenceDone, 0, 0, 0, kA, fence);
  EXPECT_THAT(broken(), HasSubstr("before it was"));
}

TEST_F(ValidatorTest, NoticesADecommitWhileWorkMayTouchTheMemory) {
  grant(kBase, 512, kA);
  fences_.queue(kA);
  tell_truth();
  give(kBase, 512);
  tell(EventKind::kDecommit, kBase, 2 * kMiB);
  EXPECT_THAT(broken(), HasSubstr("I13"));
}

TEST_F(ValidatorTest, NoticesADecommitUnderALiveBlock) {
  grant(kBase, 512);
  tell(EventKind::kDecommit, kBase, 2 * kMiB);
  EXPECT_THAT(broken(), HasSubstr("I13: decommit under"));
}

TEST_F(ValidatorTest, NoticesReservedAboveALimit) {
  tell(EventKind::kLimit, 0, 4 * kMiB);
  EXPECT_EQ(broken(), "nothing");
  tell(EventKind::kCommit, kBase + 4 * kMiB, 2 * kMiB);
  EXPECT_THAT(broken(), HasSubstr("I11"));
}

TEST_F(ValidatorTest, NoticesAPoolAboveItsOwnLimit) {
  tell(EventKind::kLimit, 0, 2 * kMiB, 0, kA, {}, 1);
  tell(EventKind::kCommit, kBase + 4 * kMiB, 4 * kMiB, 0, kA, {}, 1);
  EXPECT_THAT(broken(), HasSubstr("I11"));
}

TEST_F(ValidatorTest, NoticesBrokenSourceContracts) {
  tell(EventKind::kCommit, kBase + 2 * kMiB, 4 * kMiB);
  EXPECT_THAT(broken(), HasSubstr("commit of what is committed"));
}

TEST_F(ValidatorTest, SaysWhichFigureDiffers) {
  grant(kBase, 1000);
  Stats kept;
  kept.requested.current = 999;
  EXPECT_THAT(validator_->stats().difference(kept).value_or(""),
              HasSubstr("requested: events say {current 1000"));
}

}  // namespace
}  // namespace cistern::support
