#include "cistern/core/free_epochs.hpp"

#include <gtest/gtest.h>

namespace cistern {
namespace {

TEST(FreeEpochs, TellFreesBeforeAnEndFromThoseAfter) {
  FreeEpochs epochs;
  EXPECT_EQ(epochs.end(), 0u) << "nothing was freed";
  epochs.count_free();
  const Block::Stamp before = epochs.stamp();
  const std::uint64_t ended = epochs.end();
  const Block::Stamp after = epochs.stamp();
  EXPECT_LE(epochs.epoch_of(before), ended);
  EXPECT_GT(epochs.epoch_of(after), ended);
  EXPECT_EQ(epochs.end(), ended) << "nothing was freed since";
}

TEST(FreeEpochs, CountAFreeLongAgoAsALaterOneNeverAsAnEarlier) {
  FreeEpochs epochs;
  std::uint64_t ended = 0;
  Block::Stamp old = 0;
  Block::Stamp young = 0;
  for (int i = 0; !epochs.full(); ++i) {
    epochs.count_free();
    if (i == 5) old = epochs.stamp();
    young = epochs.stamp();
    ended = epochs.end();
  }
  const std::uint64_t old_epoch = epochs.epoch_of(old);
  const std::uint64_t young_epoch = epochs.epoch_of(young);
  old = FreeEpochs::later(old);
  young = FreeEpochs::later(young);
  epochs.first_epochs_forgotten();
  EXPECT_FALSE(epochs.full());
  EXPECT_GE(epochs.epoch_of(old), old_epoch);
  EXPECT_LE(epochs.epoch_of(old), ended) << "it is idle all the same once the last fence is done";
  EXPECT_EQ(epochs.epoch_of(young), young_epoch);
}

}  // namespace
}  // namespace cistern
