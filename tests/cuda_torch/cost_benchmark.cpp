// What a request costs through our plug and through torch's native allocator, side by side in one process
// over the fake runtime: no driver call is on these paths, so bookkeeping is all there is. Prints a table;
// passes no judgement in its exit code, as time on a shared machine is no property of the code.
//
//   cost_benchmark                          the table
//   cost_benchmark native|ours CASE COUNT   COUNT operations and nothing else, for callgrind
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/base/units.hpp"
#include "support/fake_cudart/control.hpp"
#include "support/random.hpp"

// libtorch_cuda says this to libc10_cuda when it is loaded; no header declares it.
namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*)(c10::DeviceIndex));
}

// Both allocators ask this before each allocation. A driver reads it from the thread; the fake runtime counts
// calls under one lock, which would be half of what is measured, and all of it with two threads. There is one
// device here.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

namespace cistern::perf {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;

constexpr int kMostThreads = 2;
constexpr int kRounds = 101;
// Short, so that some rounds are undisturbed on a machine that others use too, and of the same time for both sides, or
// the slower one would have fewer of those.
constexpr std::chrono::milliseconds kRoundTime(2);
constexpr long kBatch = 256;      // operations between two looks at the clock
constexpr long kUntimed = 2'000;  // operations before the clock starts: the other side's round emptied the caches
constexpr std::size_t kDeviceBytes = 32 * kGiB;

struct Case {
  const char* name;
  std::size_t pair_bytes;  ///< 0: any of a random live set is freed, and another size is allocated.
};
constexpr Case kCases[] = {{"512 B", 512}, {"1 MiB", kMiB}, {"4 MiB", 4 * kMiB}, {"2,000 live", 0}};

/// One thread's share of a case. Everything it needs is drawn before the clock starts.
class Worker {
 public:
  Worker(cca::CUDAAllocator& allocator, const Case& what, int number)
      : allocator_(allocator), bytes_(what.pair_bytes), live_(bytes_ == 0 ? 2000 : 0) {
    support::Random random(17 + static_cast<std::uint64_t>(number));
    if (bytes_ != 0) return;
    draws_.resize(1 << 14);
    for (Draw& draw : draws_) draw = {random.below(live_.size()), random.log_uniform(512, 8 * kMiB)};
    for (void*& data : live_) data = allocator_.raw_alloc(random.log_uniform(512, 8 * kMiB));
    run(static_cast<long>(20 * live_.size()));  // until misses are rare
  }
  ~Worker() {
    for (void* data : live_) allocator_.raw_delete(data);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(long count) {
    if (bytes_ != 0) {
      for (long i = 0; i < count; ++i) allocator_.raw_delete(allocator_.raw_alloc(bytes_));
      return;
    }
    for (long i = 0; i < count; ++i) {
      const Draw& draw = draws_[at_++ % draws_.size()];
      allocator_.raw_delete(live_[draw.victim]);
      live_[draw.victim] = allocator_.raw_alloc(draw.bytes);
    }
  }

 private:
  struct Draw {
    std::size_t victim = 0;
    std::size_t bytes = 0;
  };
  cca::CUDAAllocator& allocator_;
  const std::size_t bytes_;
  std::vector<void*> live_;
  std::vector<Draw> draws_;
  std::size_t at_ = 0;
};

/// Threads on streams of their own, which run a case at the same time whenever asked, and sleep in between: a crew that
/// waited by spinning would take the processors from the other one's rounds.
class Crew {
 public:
  Crew(cca::CUDAAllocator& allocator, const Case& what, int thread_count)
      : took_ns_(static_cast<std::size_t>(thread_count)), meet_(thread_count + 1) {
    for (int number = 0; number < thread_count; ++number) {
      threads_.emplace_back([this, &allocator, &what, number] { serve(allocator, what, number); });
    }
    meet_.arrive_and_wait();
  }
  ~Crew() {
    over_ = true;
    meet_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Nanoseconds an operation of one thread.
  double round() {
    running_.store(0, std::memory_order_relaxed);
    meet_.arrive_and_wait();
    meet_.arrive_and_wait();
    double per_ns = 0;
    for (const double ns : took_ns_) per_ns += 1 / ns;
    return static_cast<double>(took_ns_.size()) / per_ns;
  }

 private:
  void serve(cca::CUDAAllocator& allocator, const Case& what, int number) {
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, 0));
    Worker worker(allocator, what, number);
    for (meet_.arrive_and_wait();; meet_.arrive_and_wait()) {
      meet_.arrive_and_wait();
      if (over_) return;
      running_.fetch_add(1, std::memory_order_acq_rel);  // awake at different times, they begin at the same
      while (running_.load(std::memory_order_acquire) < took_ns_.size()) std::this_thread::yield();
      took_ns_[static_cast<std::size_t>(number)] = timed(worker);
    }
  }

  static double timed(Worker& worker) {
    using Clock = std::chrono::steady_clock;
    worker.run(kUntimed);
    const Clock::time_point begin = Clock::now();
    long count = 0;
    Clock::time_point now = begin;
    for (; now < begin + kRoundTime; now = Clock::now()) {
      worker.run(kBatch);
      count += kBatch;
    }
    return std::chrono::duration<double, std::nano>(now - begin).count() / static_cast<double>(count);
  }

  std::vector<double> took_ns_;  ///< By each thread, an operation.
  std::barrier<> meet_;          ///< Before and after each round, with whoever asks for it.
  std::atomic<std::size_t> running_{0};
  bool over_ = false;
  std::vector<std::thread> threads_;
};

struct Figures {
  double median = 0;
  double best = 0;
};

Figures figures_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front()};
}

struct Pair {
  Figures native;
  Figures ours;
};

Pair measure(cca::CUDAAllocator& native, cca::CUDAAllocator& ours, const Case& what, int threads) {
  std::vector<double> of_native;
  std::vector<double> of_ours;
  Crew native_crew(native, what, threads);
  Crew our_crew(ours, what, threads);
  for (int round = -2; round < kRounds; ++round) {
    const double theirs = native_crew.round();
    const double mine = our_crew.round();
    if (round < 0) continue;  // page faults and frequencies settle
    of_native.push_back(theirs);
    of_ours.push_back(mine);
  }
  return {figures_of(of_native), figures_of(of_ours)};
}

void print_table(cca::CUDAAllocator& native, cca::CUDAAllocator& ours) {
  std::printf(
      "ns for one free and one allocation, each thread on its stream; %d rounds, A B A B: median, and best "
      "in ()\n\n",
      kRounds);
  std::printf("%-12s %7s %18s %18s %17s  %s\n", "case", "threads", "native", "ours", "faster",
              "two threads do");
  for (const Case& what : kCases) {
    Figures alone;
    for (int threads = 1; threads <= kMostThreads; ++threads) {
      const Pair pair = measure(native, ours, what, threads);
      std::printf("%-12s %7d %9.1f (%6.1f) %9.1f (%6.1f) %8.1fx (%4.1fx)", what.name, threads,
                  pair.native.median, pair.native.best, pair.ours.median, pair.ours.best,
                  pair.native.median / pair.ours.median, pair.native.best / pair.ours.best);
      if (threads == 1) alone = pair.ours;
      if (threads == 2) {
        std::printf("  %.2fx (%.2fx) of one", 2 * alone.median / pair.ours.median,
                    2 * alone.best / pair.ours.best);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  std::printf("\nbars: 5x faster in each row; two threads on two streams do 1.6x of one\n");
}

int run_alone(cca::CUDAAllocator& allocator, const char* name, long count) {
  for (const Case& what : kCases) {
    if (std::strcmp(name, what.name) != 0) continue;
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, 0));
    Worker(allocator, what, 0).run(count);
    return 0;
  }
  std::fprintf(stderr, "cases:");
  for (const Case& what : kCases) std::fprintf(stderr, " '%s'", what.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace cistern::perf

int main(int argc, char** argv) {
  using namespace cistern;
  using namespace cistern::perf;
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  fakecuda_set_device_bytes(0, kDeviceBytes);
  cca::CUDAAllocator& native = *cca::get();
  install_cuda();
  cca::CUDAAllocator& ours = *cca::get();
  native.init(1);
  ours.init(1);
  if (argc == 4 && std::strcmp(argv[1], "native") == 0) return run_alone(native, argv[2], std::atol(argv[3]));
  if (argc == 4 && std::strcmp(argv[1], "ours") == 0) return run_alone(ours, argv[2], std::atol(argv[3]));
  if (argc != 1) return std::fprintf(stderr, "usage: %s [native|ours CASE COUNT]\n", argv[0]), 2;
  print_table(native, ours);
}
