// Many threads at once, for ThreadSanitizer to watch and for the validator to judge afterwards. Threads meet
// by their work alone: no sleeps, fixed operation counts, fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/hand_fences.hpp"
#include "support/random.hpp"
#include "support/validator.hpp"

namespace cistern {
namespace {

using support::HandFences;
using support::Random;
using support::Validator;

constexpr std::size_t kThreads = 4;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(CISTERN_AUDIT)
constexpr int kOperations = 4000;
#else
constexpr int kOperations = 50'000;
#endif

/// Blocks on their way from the thread that allocated them to the one that frees them.
class Mailbox {
 public:
  void put(Address address) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(address);
  }
  std::vector<Address> take_all() {
    const std::scoped_lock lock(mutex_);
    return std::move(waiting_);
  }

 private:
  std::mutex mutex_;
  std::vector<Address> waiting_;
};

class ThreadsStress : public ::testing::Test {
 protected:
  void make(const Options& options, StreamFences* fences) {
    options_ = options;
    allocator_ = std::make_unique<CachingAllocator>(options, source_, fences);
    validator_ = std::make_unique<Validator>(source_.traits(), options.least_block_bytes);
    validator_->tell_classes(options);
    allocator_->start_recording(*validator_);
  }

  /// One worker: allocates on its own stream, frees half itself, sends half to the next worker, frees what it
  /// is sent.
  void work(std::size_t self) {
    Random random(self + 1);
    std::vector<Address> own;
    for (int i = 0; i < kOperations; ++i) {
      for (const Address address : mailboxes_[self].take_all()) free(address);
      if (own.size() > 100 || (!own.empty() && random.one_in(3))) {
        std::swap(own[random.below(own.size())], own.back());
        free(own.back());
        own.pop_back();
      }
      const auto result =
          allocator_->allocate({.bytes = random.log_uniform(1, 256 * kKiB), .stream = StreamId{self}});
      if (!result) continue;
      if (use_streams_ && random.one_in(8)) {
        allocator_->record_stream(result->address, StreamId{(self + 1) % kThreads});
      }
      if (random.one_in(2))
        own.push_back(result->address);
      else
        mailboxes_[(self + 1) % kThreads].put(result->address);
    }
    for (const Address address : own) free(address);
  }

  void free(Address address) {
    if (allocator_->free(address) == FreeOutcome::kNotLive) ++bad_frees_;
  }

  /// Runs the workers, and `govern(i)` again and again in a thread of its own until they are done.
  template <class Govern>
  void run(Govern govern) {
    std::atomic<bool> done{false};
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < kThreads; ++i) workers.emplace_back([this, i] { work(i); });
    std::thread governor([&] {
      for (std::uint64_t i = 0; !done.load(); ++i) {
        govern(i);
        std::this_thread::yield();
      }
    });
    for (std::thread& worker : workers) worker.join();
    done.store(true);
    governor.join();
    for (Mailbox& mailbox : mailboxes_) {
      for (const Address address : mailbox.take_all()) free(address);
    }
  }

  void judge() {
    EXPECT_EQ(bad_frees_.load(), 0u);
    allocator_->audit();
    allocator_->trim();
    const Stats stats = allocator_->stats();
    EXPECT_EQ(stats.allocations.current, 0u);
    EXPECT_EQ(stats.dropped_events, 0u);
    allocator_->stop_recording();
    validator_->finish();
    EXPECT_EQ(validator_->violation().value_or(""), "");
    EXPECT_EQ(validator_->stats().difference(stats).value_or(""), "")
        << "peaks are exact for any number of threads";
    if (!options_.limit && options_.remap_slack >= 1.0) {  // else a class lends blocks to the other
      EXPECT_EQ(validator_->stats().class_difference(stats).value_or(""), "");
    }
    allocator_.reset();
    EXPECT_EQ(source_.held_bytes(), 0u);
  }

  SimulatedSource source_{{.granule_bytes = 256 * kKiB, .capacity_bytes = kGiB}};
  Options options_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::unique_ptr<Validator> validator_;
  Mailbox mailboxes_[kThreads];
  std::atomic<std::uint64_t> bad_frees_{0};
  bool use_streams_ = false;
};

TEST_F(ThreadsStress, ShardsWithoutStreamsShareMemoryAndFreeForEachOther) {
  make({.limit = Amount{48 * kMiB, 0.0}, .least_block_bytes = 64}, nullptr);
  run([&](std::uint64_t) { allocator_->stats(); });
  judge();
}

TEST_F(ThreadsStress, LimitsTrimsAndReportsWhileOthersAllocate) {
  make({.remap_slack = 1.0, .trim = TrimMode::kAboveHighWater, .high_water_bytes = 16 * kMiB}, nullptr);
  run([&](std::uint64_t i) {
    switch (i % 8) {
      case 0:
        static_cast<void>(allocator_->set_limit((32 + i % 64) * kMiB));
        break;
      case 1:
        allocator_->trim(8 * kMiB);
        break;
      case 2:
        allocator_->tick();
        break;
      case 3:
        allocator_->snapshot();
        break;
      case 4:
        allocator_->audit();
        break;
      case 5:
        allocator_->clear_limit();
        break;
      case 6:
        allocator_->mark(i);
        break;
      default:
        allocator_->stats();
    }
  });
  judge();
}

TEST_F(ThreadsStress, StreamsWithFencesThatAnotherThreadCompletes) {
  HandFences fences;
  use_streams_ = true;
  make({.limit = Amount{64 * kMiB, 0.0}}, &fences);
  run([&](std::uint64_t i) {
    fences.queue(StreamId{i % kThreads});
    if (i % 3 == 0) fences.complete(StreamId{i / 3 % kThreads}, 3);
    if (i % 64 == 0) allocator_->trim(16 * kMiB);
  });
  judge();
  EXPECT_EQ(fences.held_count(), 0u);
}

TEST_F(ThreadsStress, PoolsHaveHeapsOfTheirOwn) {
  make({}, nullptr);
  const PoolId pools[] = {PoolId{}, allocator_->create_pool({32 * kMiB}), allocator_->create_pool()};
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < kThreads; ++i) {
    workers.emplace_back([&, i] {
      Random random(100 + i);
      for (int round = 0; round < kOperations; ++round) {
        const auto result = allocator_->allocate({.bytes = random.log_uniform(1, kMiB),
                                                  .stream = StreamId{i % 2},
                                                  .pool = pools[random.below(3)]});
        if (result) free(result->address);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  judge();
}

TEST_F(ThreadsStress, RecordingsStartAndStopWhileOthersAllocate) {
  make({}, nullptr);
  allocator_->stop_recording();
  run([&](std::uint64_t) {
    Validator validator(source_.traits(), options_.least_block_bytes);
    allocator_->start_recording(validator);
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    allocator_->stop_recording();
    validator.finish();
    EXPECT_EQ(validator.violation().value_or(""), "");
  });
  EXPECT_EQ(bad_frees_.load(), 0u);
  allocator_->audit();
}

}  // namespace
}  // namespace cistern
