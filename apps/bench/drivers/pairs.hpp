// What a pair of allocation and free costs, by live blocks and by threads. Of an allocator as trace_run.hpp
// wants it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "figures.hpp"

namespace cistern::bench {

/// One thread's share of pairs and churn. What is random is drawn before the clock starts.
template <class Allocator>
class PairWorker {
 public:
  PairWorker(Allocator& allocator, std::uint64_t pair_bytes, std::size_t live_count, std::uint64_t number)
      : allocator_(allocator), pair_bytes_(pair_bytes), stream_(number), live_(live_count) {
    std::mt19937_64 random(17 + number);
    std::uniform_real_distribution<double> exponent(9, 23);  // 512 B to 8 MiB
    draws_.resize(std::max<std::size_t>(std::size_t{1} << 14, 2 * live_count));
    for (Draw& draw : draws_) {
      draw = {live_count == 0 ? 0 : random() % live_count,
              static_cast<std::uint64_t>(std::exp2(exponent(random)))};
    }
    for (std::size_t index = 0; index < live_count; ++index) live_[index] = take(draws_[index].bytes);
  }
  ~PairWorker() {
    for (const Live& block : live_) allocator_.free(block.data, block.bytes, stream_);
  }
  PairWorker(const PairWorker&) = delete;
  PairWorker& operator=(const PairWorker&) = delete;

  void run(std::size_t count) {
    for (std::size_t pair = 0; pair < count; ++pair) {
      if (live_.empty()) {
        allocator_.free(allocator_.allocate(pair_bytes_, stream_, 0), pair_bytes_, stream_);
        continue;
      }
      const Draw& draw = draws_[at_++ % draws_.size()];
      Live& block = live_[draw.victim];
      allocator_.free(block.data, block.bytes, stream_);
      block = take(draw.bytes);
    }
  }

  /// Nanoseconds a pair, over at least that long.
  double run_for(std::chrono::milliseconds least) {
    const Clock::time_point start = Clock::now();
    std::size_t count = 0;
    for (; Clock::now() - start < least; count += kBatch) run(kBatch);
    return nanoseconds_since(start) / static_cast<double>(count);
  }

 private:
  static constexpr std::size_t kBatch = 64;
  struct Draw {
    std::size_t victim = 0;
    std::uint64_t bytes = 0;
  };
  struct Live {
    void* data = nullptr;
    std::uint64_t bytes = 0;
  };
  Live take(std::uint64_t bytes) {
    void* data = allocator_.allocate(bytes, stream_, 0);
    if (data == nullptr) throw std::runtime_error("out of memory");
    return {data, bytes};
  }

  Allocator& allocator_;
  const std::uint64_t pair_bytes_;
  const std::uint64_t stream_;
  std::vector<Live> live_;
  std::vector<Draw> draws_;
  std::size_t at_ = 0;
};

/// Threads begin each timed stretch together; each has a stream of its own.
template <class Allocator>
Json measure_pairs(Allocator& allocator, std::uint64_t pair_bytes, std::size_t live_count,
                   std::size_t thread_count) {
  constexpr int kStretches = 9;
  constexpr std::chrono::milliseconds kWarmUp(150), kStretch(20);
  constexpr std::uint64_t kCapacityBytes = std::uint64_t{1} << 41;
  allocator.start(kCapacityBytes, (live_count + 1) * std::uint64_t{8} << 20);
  std::vector<std::vector<double>> ns(thread_count);
  std::mutex mutex;
  std::condition_variable all_here;
  std::size_t arrived = 0;
  const auto meet = [&](std::size_t turn) {
    std::unique_lock<std::mutex> lock(mutex);
    ++arrived;
    all_here.notify_all();
    all_here.wait(lock, [&] { return arrived >= turn * thread_count; });
  };
  const auto serve = [&](std::size_t number) {
    PairWorker<Allocator> worker(allocator, pair_bytes, live_count, number);
    worker.run_for(kWarmUp);
    for (std::size_t stretch = 1; stretch <= kStretches; ++stretch) {
      meet(stretch);
      ns[number].push_back(worker.run_for(kStretch));
    }
    meet(kStretches + 1);
  };
  std::vector<std::thread> threads;
  for (std::size_t number = 1; number < thread_count; ++number) threads.emplace_back(serve, number);
  serve(0);
  for (std::thread& thread : threads) thread.join();
  allocator.stop();
  double pairs_per_ns = 0;
  for (const std::vector<double>& values : ns) pairs_per_ns += 1 / median(values);
  return {{"threads", thread_count},
          {"ns_per_pair", static_cast<double>(thread_count) / pairs_per_ns},
          {"pairs_per_microsecond", 1000 * pairs_per_ns}};
}

}  // namespace cistern::bench
