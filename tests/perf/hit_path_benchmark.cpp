// ns on the hit path, with lock and statistics, in a process that has a second thread: that is where a std::mutex costs
// most, and it stands beside the figures. Run check_hit_path.py to hold them to the targets.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "perf/hit_path_cases.hpp"
#include "support/host_allocations.hpp"

namespace cistern::perf {
namespace {

/// What has to be none in a steady state, while it lives.
class SteadyState {
 public:
  SteadyState(benchmark::State& state, const CountedAllocator& counted)
      : state_(state), counted_(counted), calls_(counted.source_call_count()), host_(support::host_allocation_count()) {}
  ~SteadyState() {
    const std::uint64_t host = support::host_allocation_count() - host_;
    state_.counters["host_allocations"] = static_cast<double>(host);
    state_.counters["source_calls"] = static_cast<double>(counted_.source_call_count() - calls_);
  }
  SteadyState(const SteadyState&) = delete;
  SteadyState& operator=(const SteadyState&) = delete;

 private:
  benchmark::State& state_;
  const CountedAllocator& counted_;
  std::uint64_t calls_;
  std::uint64_t host_;
};

/// Made once, as it takes longer to warm up than to measure.
RandomChurn& churn_of(std::size_t live_count) {
  static std::map<std::size_t, std::unique_ptr<RandomChurn>> known;
  std::unique_ptr<RandomChurn>& churn = known[live_count];
  if (churn == nullptr) churn = std::make_unique<RandomChurn>(live_count);
  return *churn;
}

void mutex_lock_unlock(benchmark::State& state) {
  std::mutex mutex;
  for (auto _ : state) {
    mutex.lock();
    benchmark::DoNotOptimize(&mutex);
    mutex.unlock();
  }
}

void last_in_first_out(benchmark::State& state) {
  LastInFirstOut hit(static_cast<std::size_t>(state.range(0)));
  const SteadyState steady(state, hit);
  for (auto _ : state) hit.pair();
}

void random_churn(benchmark::State& state) {
  RandomChurn& churn = churn_of(static_cast<std::size_t>(state.range(0)));
  const SteadyState steady(state, churn);
  for (auto _ : state) churn.pair();
}

void over_streams(benchmark::State& state) {
  RoundRobin robin(1, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) robin.pair();
}

void over_devices(benchmark::State& state) {
  RoundRobin robin(static_cast<std::size_t>(state.range(0)), 1);
  for (auto _ : state) robin.pair();
}

/// Of many intervals in ns, the one that `share` of them do not exceed.
class Intervals {
 public:
  void add(std::int64_t ns) { ++counts_[static_cast<std::size_t>(std::clamp<std::int64_t>(ns, 0, kMost))]; }
  std::int64_t quantile(double share) const {
    std::uint64_t total = 0;
    for (const std::uint64_t count : counts_) total += count;
    auto left = static_cast<std::uint64_t>(share * static_cast<double>(total));
    std::size_t ns = 0;
    while (left >= counts_[ns] && ns < kMost) left -= counts_[ns++];
    return static_cast<std::int64_t>(ns);
  }

 private:
  static constexpr std::int64_t kMost = 99'999;
  std::array<std::uint64_t, kMost + 1> counts_{};
};

/// Each pair of a churn on its own, without what reading the clock takes.
void pair_by_pair(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  static Intervals nothing, pairs;
  RandomChurn& churn = churn_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const auto start = Clock::now();
    const auto begin = Clock::now();
    churn.pair();
    const auto end = Clock::now();
    nothing.add((begin - start).count());
    pairs.add((end - begin).count());
  }
  const auto clock = static_cast<double>(nothing.quantile(0.5));
  const double median = std::max(static_cast<double>(pairs.quantile(0.5)) - clock, 1.0);
  state.counters["median_ns"] = median;
  state.counters["p999_over_median"] = (static_cast<double>(pairs.quantile(0.999)) - clock) / median;
}

BENCHMARK(mutex_lock_unlock);
BENCHMARK(last_in_first_out)->Arg(512)->Arg(kMiB);
BENCHMARK(random_churn)->Arg(100)->Arg(1000)->Arg(10'000)->Arg(100'000);
BENCHMARK(over_streams)->Arg(1)->Arg(64);
BENCHMARK(over_devices)->Arg(1)->Arg(8);
BENCHMARK(pair_by_pair)->Arg(1000);

/// Alive for the whole run, and asleep.
class SecondThread {
 public:
  SecondThread()
      : thread_([this] {
          std::unique_lock lock(mutex_);
          wake_.wait(lock, [this] { return over_; });
        }) {}
  ~SecondThread() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace
}  // namespace cistern::perf

int main(int argc, char** argv) {
  const cistern::perf::SecondThread second;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
