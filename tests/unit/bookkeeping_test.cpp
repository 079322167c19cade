// I12 when the host runs out: our own tables cannot grow, and nothing but counters changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/host_allocations.hpp"
#include "support/world.hpp"

namespace cistern {
namespace {

using support::FailingHostAllocations;
using support::HandFences;

constexpr StreamId kA{1};
constexpr StreamId kB{2};

/// The simulated source and the hand-operated fences allocate for themselves; drivers do not run out on our
/// account.
class SparedSource final : public MemorySource {
 public:
  explicit SparedSource(const SimulatedOptions& options) : source_(options) {}
  const SourceTraits& traits() const noexcept override { return source_.traits(); }
  std::size_t available_bytes() const override { return source_.available_bytes(); }
  std::optional<SourceRange> reserve(std::size_t bytes) override {
    const FailingHostAllocations::Pause pause;
    return source_.reserve(bytes);
  }
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override {
    const FailingHostAllocations::Pause pause;
    return source_.commit(range, offset, bytes);
  }
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override {
    source_.decommit(range, offset, bytes);
  }
  void unreserve(RangeId range) override { source_.unreserve(range); }
  const SimulatedSource& simulated() const { return source_; }

 private:
  SimulatedSource source_;
};

class SparedFences final : public StreamFences {
 public:
  FenceId record(StreamId stream) override {
    const FailingHostAllocations::Pause pause;
    return fences_.record(stream);
  }
  FenceState query(FenceId fence) override { return fences_.query(fence); }
  void wait(FenceId fence) override {
    const FailingHostAllocations::Pause pause;
    fences_.wait(fence);
  }
  bool order_after(StreamId stream, FenceId fence) override {
    const FailingHostAllocations::Pause pause;
    return fences_.order_after(stream, fence);
  }
  void release(FenceId fence) override { fences_.release(fence); }
  HandFences& by_hand() { return fences_; }

 private:
  HandFences fences_;
};

/// What a caller can see of an allocator: everything but counters.
std::string visible(const CachingAllocator& allocator) {
  const Stats stats = allocator.stats();
  return support::to_text(allocator.snapshot()) + " live " + std::to_string(stats.requested.current) +
         " pending " + std::to_string(stats.pending_bytes) + " peak " + std::to_string(stats.requested.peak);
}

class Bookkeeping : public ::testing::TestWithParam<bool> {
 protected:
  Bookkeeping() {
    SimulatedOptions options;
    options.capacity_bytes = kGiB;
    options.range_step_bytes = 16 * kMiB;
    options.whole_only = GetParam();
    source_ = std::make_unique<SparedSource>(options);
  }

  std::unique_ptr<CachingAllocator> make() {
    return std::make_unique<CachingAllocator>(options_, *source_, &fences_);
  }

  /// Fails the first, second, ... host allocation of `call`, on a fresh allocator that `prepare` brought
  /// somewhere, until the call gets through. After each failure the ranges the source holds are those the
  /// allocator knows of.
  void fail_each(const std::function<void(CachingAllocator&)>& prepare,
                 const std::function<bool(CachingAllocator&)>& call) {
    for (std::uint64_t nth = 1;; ++nth) {
      auto allocator = make();
      prepare(*allocator);
      const std::string before = visible(*allocator);
      bool succeeded = false;
      bool struck = false;
      {
        const FailingHostAllocations failing(nth);
        try {
          succeeded = call(*allocator);
        } catch (const std::bad_alloc&) {
        }
        struck = failing.struck();
      }
      allocator->audit();
      if (!succeeded) {
        EXPECT_EQ(live_part(visible(*allocator)), live_part(before))
            << "host allocation " << nth << " failed";
      }
      EXPECT_EQ(source_->simulated().range_count(), allocator->snapshot().size())
          << "a range leaked at " << nth;
      EXPECT_EQ(source_->simulated().held_bytes(), allocator->stats().reserved.current);
      finish(std::move(allocator));
      if (!struck) break;
    }
  }

  /// Without what a source call on the way may rightly have left: a range, or free memory in it.
  static std::string live_part(const std::string& text) {
    std::string kept;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      if (line.find("active") != std::string::npos || line.find("pending") != std::string::npos)
        kept += line + "\n";
      at = end + 1;
    }
    return kept;
  }

  void finish(std::unique_ptr<CachingAllocator> allocator) {
    for (const RangeInfo& range : allocator->snapshot()) {
      for (const BlockInfo& block : range.blocks) {
        if (block.state == BlockState::kActive) allocator->free(block.address);
      }
    }
    allocator.reset();
    EXPECT_EQ(source_->simulated().held_bytes(), 0u);
    EXPECT_EQ(source_->simulated().range_count(), 0u);
    EXPECT_EQ(fences_.by_hand().held_count(), 0u);
  }

  Options options_;
  std::unique_ptr<SparedSource> source_;
  SparedFences fences_;
};

TEST_P(Bookkeeping, AFailedFirstRequestLeavesNothingBehind) {
  fail_each([](CachingAllocator&) {},
            [](CachingAllocator& allocator) {
              const auto result = allocator.allocate({.bytes = 3 * kMiB, .stream = kA});
              EXPECT_TRUE(result || result.error().code == FailureCode::kBookkeeping);
              return static_cast<bool>(result);
            });
}

TEST_P(Bookkeeping, AFailedGrowthKeepsWhatIsLive) {
  fail_each(
      [](CachingAllocator& allocator) {
        for (int i = 0; i < 7; ++i) static_cast<void>(allocator.allocate({.bytes = 2 * kMiB, .stream = kA}));
      },
      [](CachingAllocator& allocator) {
        return static_cast<bool>(allocator.allocate({.bytes = 40 * kMiB, .stream = kA}));
      });
}

TEST_P(Bookkeeping, AFullBlockTableIsAFailureNotACrash) {
  fail_each(
      [](CachingAllocator& allocator) {
        for (int i = 0; i < 10; ++i) static_cast<void>(allocator.allocate({.bytes = 512, .stream = kA}));
      },
      [](CachingAllocator& allocator) {
        bool all = true;
        for (int i = 0; i < 500; ++i) {
          const auto result = allocator.allocate({.bytes = 512, .stream = kA});
          if (!result) all = false;
          if (result) allocator.free(result->address);  // what is live afterwards is as before
        }
        return all;
      });
}

TEST_P(Bookkeeping, AFreeThatNeedsAFenceEitherHappensOrDoesNot) {
  Address block = 0;
  fail_each(
      [&](CachingAllocator& allocator) {
        block = allocator.allocate({.bytes = 2 * kMiB, .stream = kA})->address;
        allocator.record_stream(block, kB);
        fences_.by_hand().queue(kB);
      },
      [&](CachingAllocator& allocator) { return allocator.free(block) == FreeOutcome::kPending; });
}

TEST_P(Bookkeeping, ARecordedStreamEitherCountsOrDoesNot) {
  Address block = 0;
  fail_each(
      [&](CachingAllocator& allocator) {
        block = allocator.allocate({.bytes = 2 * kMiB, .stream = kA})->address;
      },
      [&](CachingAllocator& allocator) { return allocator.record_stream(block, kB); });
}

TEST_P(Bookkeeping, TrimEitherHappensOrLeavesTheRest) {
  fail_each(
      [](CachingAllocator& allocator) {
        std::vector<Address> blocks;
        for (int i = 0; i < 12; ++i)
          blocks.push_back(allocator.allocate({.bytes = 2 * kMiB, .stream = kA})->address);
        for (std::size_t i = 0; i < 12; i += 2) allocator.free(blocks[i]);
      },
      [](CachingAllocator& allocator) { return allocator.trim() != 0; });
}

TEST_P(Bookkeeping, AFreeAboveHighWaterHappensWhetherItCanTrimOrNot) {
  options_.trim = TrimMode::kAboveHighWater;
  Address block = 0;
  fail_each(
      [&](CachingAllocator& allocator) {
        block = allocator.allocate({.bytes = 8 * kMiB, .stream = kA})->address;
      },
      [&](CachingAllocator& allocator) {
        EXPECT_EQ(allocator.free(block), FreeOutcome::kFreed);
        return true;
      });
}

INSTANTIATE_TEST_SUITE_P(Sources, Bookkeeping, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "WholeOnly" : "Granules"; });

}  // namespace
}  // namespace cistern
