// An allocator with everything it stands on, for tests: simulated memory, hand-operated streams, a validator
// listening.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/hand_fences.hpp"
#include "support/snapshot_check.hpp"
#include "support/validator.hpp"

namespace cistern::support {

enum class Streams : std::uint8_t { kNone, kByHand };

struct WorldOptions {
  Options allocator{};
  SimulatedOptions source = {.granule_bytes = 2 * kMiB, .capacity_bytes = kGiB};
  Streams streams = Streams::kByHand;
};

/// Ends in audit() and in the validator's verdict; a test that leaves blocks live has them freed first.
class World {
 public:
  explicit World(WorldOptions options = {})
      : source(options.source),
        allocator_(std::make_unique<CachingAllocator>(
            options.allocator, source, options.streams == Streams::kByHand ? &fences : nullptr)),
        validator(source.traits(), options.allocator.least_block_bytes,
                  options.streams == Streams::kByHand ? &fences : nullptr) {
    validator.tell_classes(options.allocator);
    allocator_->start_recording(validator);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  ~World() {
    tell_truth();
    allocator_->audit();
    const Stats stats = allocator_->stats();
    EXPECT_EQ(broken_tiling(allocator_->snapshot(), stats).value_or(""), "");
    EXPECT_EQ(broken_order(stats).value_or(""), "");
    allocator_->stop_recording();
    validator.finish();
    EXPECT_EQ(validator.violation().value_or(""), "");
    for (const RangeInfo& range : allocator_->snapshot()) {
      for (const BlockInfo& block : range.blocks) {
        if (block.state == BlockState::kActive) allocator_->free(block.address);
      }
    }
    fences.set_capturing(false);
    fences.set_recordable(true);
    allocator_.reset();
    EXPECT_EQ(source.held_bytes(), 0u);
    EXPECT_EQ(fences.held_count(), 0u) << "fences never released";
  }

  CachingAllocator* operator->() { return allocator_.get(); }
  CachingAllocator& operator*() { return *allocator_; }

  Result<Allocation, Failure> try_allocate(std::size_t bytes, StreamId stream = {}, PoolId pool = {}) {
    tell_truth();
    return allocator_->allocate({.bytes = bytes, .alignment = 1, .stream = stream, .pool = pool});
  }
  /// The address; 0 and a failed expectation when refused.
  Address allocate(std::size_t bytes, StreamId stream = {}, PoolId pool = {}) {
    const auto result = try_allocate(bytes, stream, pool);
    EXPECT_TRUE(result) << result.error().explain();
    return result ? result->address : 0;
  }
  FreeOutcome free(Address address) {
    tell_truth();
    return allocator_->free(address);
  }
  std::size_t trim(std::size_t keep_bytes = 0) {
    tell_truth();
    return allocator_->trim(keep_bytes);
  }
  void queue(StreamId stream) { fences.queue(stream); }
  void complete(StreamId stream) { fences.complete(stream, ~std::uint64_t{0} / 2); }

  std::uint64_t served(Rung rung) const { return allocator_->stats().served[static_cast<std::size_t>(rung)]; }
  std::uint64_t source_calls() const { return allocator_->stats().source_calls.total(); }
  std::size_t reserved() const { return allocator_->stats().reserved.current; }

  SimulatedSource source;
  HandFences fences;

 private:
  // Before each call: the validator must know what the test did to the streams since.
  void tell_truth() {
    if (fences.log_size() == told_) return;
    told_ = fences.log_size();
    allocator_->mark(kTruthMark + told_);
  }

  std::unique_ptr<CachingAllocator> allocator_;
  std::size_t told_ = 0;

 public:
  Validator validator;
};

inline WorldOptions world_with(Options allocator) {
  WorldOptions options;
  options.allocator = std::move(allocator);
  return options;
}

inline Amount bytes(std::size_t count) {
  return Amount{count, 0.0};
}

}  // namespace cistern::support
