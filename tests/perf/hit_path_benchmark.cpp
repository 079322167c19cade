// ns per allocate+free pair on the hit path, with lock and statistics, in a process that has a second thread:
// that is where a std::mutex costs most, and it stands beside the figures. Run check_hit_path.py to hold them
// to the targets.
#include <benchmark/benchmark.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "perf/hit_path_cases.hpp"

namespace cistern::perf {
namespace {

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
  for (auto _ : state) hit.pair();
}

void random_churn(benchmark::State& state) {
  RandomChurn churn(static_cast<std::size_t>(state.range(0)));
  const std::uint64_t misses_before = churn.miss_count();
  for (auto _ : state) churn.pair();
  state.counters["misses_per_million"] =
      1e6 * static_cast<double>(churn.miss_count() - misses_before) / static_cast<double>(state.iterations());
}

BENCHMARK(mutex_lock_unlock);
BENCHMARK(last_in_first_out)->Arg(512)->Arg(kMiB);
BENCHMARK(random_churn)->Arg(100)->Arg(1000)->Arg(10'000);

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
