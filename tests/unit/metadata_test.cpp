// What our own records take on the host, byte by byte: 64 bytes a block, 64 KiB a heap and 0.1 % of what is reserved.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cistern/base/units.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "support/host_allocations.hpp"
#include "support/random.hpp"

namespace cistern {
namespace {

/// Address space without end, and no record of it on the host.
class BareSource final : public MemorySource {
 public:
  explicit BareSource(bool whole_only) {
    traits_.name = "bare";
    traits_.granule_bytes = 2 * kMiB;
    traits_.capacity_bytes = 4096 * kGiB;
    traits_.range_step_bytes = 4 * kGiB;
    traits_.whole_only = whole_only;
  }
  const SourceTraits& traits() const noexcept override { return traits_; }
  std::size_t available_bytes() const override { return traits_.capacity_bytes; }
  std::optional<SourceRange> reserve(std::size_t bytes) override {
    const Address address = next_;
    next_ += round_up(bytes, kGiB / 16);
    return SourceRange{RangeId{++last_id_}, address, bytes};
  }
  std::size_t commit(RangeId, std::size_t, std::size_t bytes) override { return bytes; }
  void decommit(RangeId, std::size_t, std::size_t) override {}
  void unreserve(RangeId) override {}

 private:
  SourceTraits traits_;
  Address next_ = Address{1} << 40;
  std::uint32_t last_id_ = 0;
};

class Metadata : public ::testing::Test {
 protected:
  explicit Metadata(bool whole_only = false) : source_(whole_only) {
    const std::int64_t before = support::host_bytes();
    allocator_ = std::make_unique<CachingAllocator>(Options{}, source_);
    held_ = support::host_bytes() - before;
  }
  ~Metadata() override {
    for (const Address address : live_) allocator_->free(address);
  }

  /// Requires a live list with room: it is on the host, too.
  void allocate(std::size_t bytes, std::uint64_t stream = 0) {
    const std::int64_t before = support::host_bytes();
    live_.push_back(allocator_->allocate({.bytes = bytes, .stream = StreamId{stream}})->address);
    held_ += support::host_bytes() - before;
  }
  void free_one(std::size_t at) {
    const std::int64_t before = support::host_bytes();
    allocator_->free(live_[at]);
    held_ += support::host_bytes() - before;
    live_[at] = live_.back();
    live_.pop_back();
  }

  void expect_within_bounds(std::size_t heap_count) {
    std::size_t blocks = 0;
    for (const RangeInfo& range : allocator_->snapshot()) blocks += range.blocks.size();
    const std::size_t bound = 64 * blocks + heap_count * 64 * kKiB + allocator_->stats().reserved.current / 1000;
    EXPECT_LE(held_, static_cast<std::int64_t>(bound))
        << blocks << " blocks, " << format_bytes(allocator_->stats().reserved.current) << " reserved";
    RecordProperty("host_bytes", static_cast<int>(held_));
    RecordProperty("bound_bytes", static_cast<int>(bound));
  }

  BareSource source_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::vector<Address> live_;
  std::int64_t held_ = 0;
};

class MetadataOfSegments : public Metadata {
 protected:
  MetadataOfSegments() : Metadata(true) {}
};

TEST_F(Metadata, OfTwoBlocksIsWithinTheBoundOfAHeap) {
  live_.reserve(2);
  allocate(512);
  allocate(4 * kMiB);
  expect_within_bounds(1);
}

TEST_F(Metadata, OfAnyNumberOfTheSmallestBlocksStaysWithinTheBound) {
#ifdef CISTERN_AUDIT  // each allocation looks at all blocks
  constexpr std::size_t kMost = 10'000;
#else
  constexpr std::size_t kMost = 100'000;
#endif
  live_.reserve(kMost);
  while (live_.size() < kMost) {
    allocate(512);
    if (live_.size() % 977 == 0) expect_within_bounds(1);
  }
}

TEST_F(Metadata, OfBlocksThatCameAndWentIsWithinTheBound) {
  live_.reserve(20'000);
  support::Random random(3);
  while (live_.size() < 20'000) allocate(random.log_uniform(512, 64 * kKiB));
  for (int i = 0; i < 10'000; ++i) free_one(random.below(live_.size()));
  expect_within_bounds(1);
}

TEST_F(Metadata, OfManyStreamsIsWithinTheBound) {
  constexpr std::size_t kStreams = 48;  // the thread sanitizer knows of 63 locks held at once
  live_.reserve(kStreams);
  for (std::uint64_t stream = 0; stream < kStreams; ++stream) allocate(512, stream);
  expect_within_bounds(kStreams);
}

TEST_F(MetadataOfSegments, IsWithinTheBoundToo) {
  live_.reserve(5'000);
  while (live_.size() < 5'000) {
    allocate(2 * kMiB);
    if (live_.size() % 501 == 0) expect_within_bounds(1);
  }
}

}  // namespace
}  // namespace cistern
