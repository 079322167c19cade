// What a request costs through our plug and through torch's native allocator, side by side in one process
// over the fake runtime: no driver call is on these paths, so bookkeeping is all there is. Prints a table;
// passes no judgement in its exit code, as time on a shared machine is no property of the code.
//
//   cost_benchmark                                  the table
//   cost_benchmark native|ours CASE COUNT THREADS   COUNT operations and nothing else, for callgrind
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
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
constexpr int kRounds = 61;  // short ones, so that some are undisturbed on a machine that others use too
constexpr std::size_t kDeviceBytes = 32 * kGiB;

struct Case {
  const char* name;
  std::size_t pair_bytes;  ///< 0: any of a random live set is freed, and another size is allocated.
  long count;              ///< Operations of a round.
};
constexpr Case kCases[] = {
    {"512 B", 512, 30'000}, {"1 MiB", kMiB, 30'000}, {"4 MiB", 4 * kMiB, 30'000}, {"2,000 live", 0, 15'000}};

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

/// Threads on streams of their own, which run a case at the same time whenever asked.
class Crew {
 public:
  Crew(cca::CUDAAllocator& allocator, const Case& what, int thread_count) : count_(what.count) {
    for (int number = 0; number < thread_count; ++number) {
      threads_.emplace_back([this, &allocator, &what, number] {
        c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, 0));
        Worker worker(allocator, what, number);
        finish_one();
        for (std::uint64_t round = 1;; ++round) {
          while (round_.load(std::memory_order_acquire) < round) std::this_thread::yield();
          if (over_.load(std::memory_order_acquire)) return;
          worker.run(count_);
          finish_one();
        }
      });
    }
    await_all();
  }
  ~Crew() {
    over_.store(true, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel);
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Nanoseconds an operation of one thread.
  double round() {
    const auto begin = std::chrono::steady_clock::now();
    finished_.store(0, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel);
    await_all();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / static_cast<double>(count_);
  }

 private:
  void finish_one() { finished_.fetch_add(1, std::memory_order_acq_rel); }
  void await_all() const {
    while (finished_.load(std::memory_order_acquire) < threads_.size()) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(50));  // a third spinning thread would cost the others
    }
  }

  const long count_;
  std::atomic<std::uint64_t> round_{0};
  std::atomic<std::size_t> finished_{0};
  std::atomic<bool> over_{false};
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

int run_alone(cca::CUDAAllocator& allocator, const char* name, long count, int threads) {
  for (Case what : kCases) {
    if (std::strcmp(name, what.name) != 0) continue;
    what.count = count;
    Crew(allocator, what, threads).round();
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
  if (argc == 5 && std::strcmp(argv[1], "native") == 0)
    return run_alone(native, argv[2], std::atol(argv[3]), std::atoi(argv[4]));
  if (argc == 5 && std::strcmp(argv[1], "ours") == 0)
    return run_alone(ours, argv[2], std::atol(argv[3]), std::atoi(argv[4]));
  if (argc != 1) return std::fprintf(stderr, "usage: %s [native|ours CASE COUNT THREADS]\n", argv[0]), 2;
  print_table(native, ours);
}
