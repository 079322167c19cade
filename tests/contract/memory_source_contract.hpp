// What every MemorySource promises, as tests over kinds of source: a kind has make(), which gives a source of 256 MiB
// to which nothing was done before.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cistern/base/units.hpp"
#include "cistern/core/memory_source.hpp"

namespace cistern {

template <class Kind>
class MemorySourceContract : public ::testing::Test {
 protected:
  std::size_t granule() const { return source_->traits().granule_bytes; }
  /// Commits the whole range, which every kind of source can.
  SourceRange commit_range(std::size_t granules) {
    const auto range = source_->reserve(granules * granule());
    EXPECT_TRUE(range);
    EXPECT_EQ(source_->commit(range->id, 0, range->bytes), range->bytes);
    return *range;
  }
  void give_back(const SourceRange& range) {
    source_->decommit(range.id, 0, range.bytes);
    source_->unreserve(range.id);
  }

  std::unique_ptr<MemorySource> source_ = Kind::make();
};

TYPED_TEST_SUITE_P(MemorySourceContract);

TYPED_TEST_P(MemorySourceContract, TraitsMakeSense) {
  const SourceTraits& traits = this->source_->traits();
  EXPECT_FALSE(traits.name.empty());
  EXPECT_NE(traits.granule_bytes, 0u);
  EXPECT_EQ(traits.granule_bytes & (traits.granule_bytes - 1), 0u);
  EXPECT_GE(traits.range_step_bytes, traits.granule_bytes);
  EXPECT_GE(traits.capacity_bytes, traits.granule_bytes);
  EXPECT_LE(this->source_->available_bytes(), traits.capacity_bytes);
}

TYPED_TEST_P(MemorySourceContract, RangesAreAlignedDistinctAndAsLargeAsAsked) {
  std::vector<SourceRange> ranges;
  for (std::size_t i = 1; i <= 8; ++i) {
    const auto range = this->source_->reserve(i * this->granule());
    ASSERT_TRUE(range);
    EXPECT_EQ(range->bytes, i * this->granule());
    EXPECT_EQ(range->address % this->granule(), 0u);
    for (const SourceRange& other : ranges) {
      EXPECT_NE(range->id, other.id);
      EXPECT_TRUE(range->address >= other.address + other.bytes ||
                  other.address >= range->address + range->bytes);
    }
    ranges.push_back(*range);
  }
  for (const SourceRange& range : ranges) this->source_->unreserve(range.id);
}

TYPED_TEST_P(MemorySourceContract, CommitGivesAllThatWasAsked) {
  const SourceRange range = this->commit_range(4);
  this->give_back(range);
}

TYPED_TEST_P(MemorySourceContract, PartsCommitInAnyOrderUnlessWholeOnly) {
  if (this->source_->traits().whole_only) GTEST_SKIP() << "whole_only";
  const std::size_t granule = this->granule();
  const auto range = this->source_->reserve(4 * granule);
  ASSERT_TRUE(range);
  EXPECT_EQ(this->source_->commit(range->id, 3 * granule, granule), granule);
  EXPECT_EQ(this->source_->commit(range->id, 0, 2 * granule), 2 * granule);
  this->source_->decommit(range->id, granule, granule);
  EXPECT_EQ(this->source_->commit(range->id, granule, 2 * granule), 2 * granule);
  this->source_->decommit(range->id, 0, 4 * granule);  // across what three commits gave
  this->source_->unreserve(range->id);
}

TYPED_TEST_P(MemorySourceContract, ACommitBeyondTheCapacityIsRefusedAndChangesNothing) {
  const std::size_t capacity = this->source_->traits().capacity_bytes;
  const std::size_t half = round_down(capacity / 2, this->granule());
  const SourceRange held = this->commit_range(half / this->granule());
  const auto range = this->source_->reserve(half + this->granule());
  if (range) {
    EXPECT_EQ(this->source_->commit(range->id, 0, range->bytes), 0u);
    this->source_->unreserve(range->id);  // nothing of it is committed
  } else {
    EXPECT_TRUE(this->source_->traits().whole_only) << "address space is not memory";
  }
  const SourceRange rest = this->commit_range(4);
  this->give_back(rest);
  this->give_back(held);
}

TYPED_TEST_P(MemorySourceContract, WhatWentBackCanBeHadAgain) {
  const std::size_t granules = this->source_->traits().capacity_bytes / this->granule() * 3 / 4;
  for (int round = 0; round < 5; ++round) this->give_back(this->commit_range(granules));
}

TYPED_TEST_P(MemorySourceContract, ARangeCommitsAgainAfterDecommit) {
  if (this->source_->traits().whole_only) GTEST_SKIP() << "whole_only";
  const SourceRange range = this->commit_range(4);
  for (int round = 0; round < 3; ++round) {
    this->source_->decommit(range.id, 0, range.bytes);
    EXPECT_EQ(this->source_->commit(range.id, 0, range.bytes), range.bytes);
  }
  this->give_back(range);
}

TYPED_TEST_P(MemorySourceContract, AvailableFallsWithWhatIsCommitted) {
  const std::size_t capacity = this->source_->traits().capacity_bytes;
  const SourceRange range = this->commit_range(capacity / this->granule() / 2);
  EXPECT_LE(this->source_->available_bytes(), capacity - range.bytes);
  this->give_back(range);
}

REGISTER_TYPED_TEST_SUITE_P(MemorySourceContract, TraitsMakeSense,
                            RangesAreAlignedDistinctAndAsLargeAsAsked,
                            CommitGivesAllThatWasAsked,
                            PartsCommitInAnyOrderUnlessWholeOnly,
                            ACommitBeyondTheCapacityIsRefusedAndChangesNothing,
                            WhatWentBackCanBeHadAgain,
                            ARangeCommitsAgainAfterDecommit,
                            AvailableFallsWithWhatIsCommitted);

}  // namespace cistern
