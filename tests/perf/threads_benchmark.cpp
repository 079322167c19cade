// Threads on the hit path, against processes that share nothing: nine rounds, each doing all cases in turn, and a line of
// JSON with the figures of all rounds. Run check_hit_path.py to hold their medians to the targets.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "perf/hit_path_cases.hpp"

namespace cistern::perf {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpell = std::chrono::milliseconds(40);
constexpr int kRounds = 9;

/// Eight blocks of several sizes, taken and given back in the order they were taken.
class Worker {
 public:
  Worker(CachingAllocator& allocator, std::uint64_t stream) : allocator_(allocator), stream_{stream} {}
  void eight_pairs() {
    for (std::size_t i = 0; i < 8; ++i) {
      live_[i] = allocator_.allocate({.bytes = std::size_t{512} << i, .stream = stream_})->address;
    }
    for (const Address address : live_) allocator_.free(address);
  }
  /// Pairs done within a spell.
  std::uint64_t work() {
    std::uint64_t pairs = 0;
    for (const auto end = Clock::now() + kSpell; Clock::now() < end;) {
      for (int i = 0; i < 64; ++i) eight_pairs();
      pairs += 64 * 8;
    }
    return pairs;
  }

 private:
  CachingAllocator& allocator_;
  StreamId stream_;
  Address live_[8]{};
};

/// Where threads, or processes, wait for each other; and what they did.
struct Meeting {
  std::atomic<int> arrived{0};
  std::atomic<std::uint64_t> pairs[2]{};

  void meet() {
    ++arrived;
    while (arrived < 2) {
    }
  }
  double sum() const { return static_cast<double>(pairs[0] + pairs[1]); }
};

double two_threads(std::uint64_t stream_a, std::uint64_t stream_b) {
  CountedAllocator counted;
  Meeting meeting;
  const auto run = [&](int which, std::uint64_t stream) {
    Worker worker(counted.allocator, stream);
    worker.work();
    meeting.meet();
    meeting.pairs[which] = worker.work();
  };
  std::thread other(run, 1, stream_b);
  run(0, stream_a);
  other.join();
  return meeting.sum();
}

double one_thread() {
  CountedAllocator counted;
  Worker worker(counted.allocator, 1);
  worker.work();
  return static_cast<double>(worker.work());
}

double two_processes() {
  void* shared = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  auto* meeting = new (shared) Meeting;
  for (int which = 0; which < 2; ++which) {
    if (fork() != 0) continue;
    std::thread([] {}).join();  // a process that has threads, as the other side
    CountedAllocator counted;
    Worker worker(counted.allocator, 1);
    worker.work();
    meeting->meet();
    meeting->pairs[which] = worker.work();
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  const double sum = meeting->sum();
  munmap(shared, sizeof(Meeting));
  return sum;
}

/// ns a free of blocks that another thread allocated, a thousand at a time.
double remote_free_ns() {
  CountedAllocator counted;
  std::vector<Address> live(1000);
  std::atomic<int> turn{0};
  std::int64_t ns = 0;
  constexpr int kTurns = 50;
  std::thread other([&] {
    for (int i = 0; i < kTurns; ++i) {
      while (turn != 2 * i + 1) std::this_thread::yield();
      const auto start = Clock::now();
      for (const Address address : live) counted.allocator.free(address);
      if (i >= kTurns / 5) ns += (Clock::now() - start).count();
      ++turn;
    }
  });
  support::Random random(11);
  for (int i = 0; i < kTurns; ++i) {
    while (turn != 2 * i) std::this_thread::yield();
    for (Address& address : live) {
      address = counted.allocator.allocate({.bytes = random.log_uniform(512, 16 * kMiB)})->address;
    }
    for (std::size_t at = live.size(); at > 1; --at) std::swap(live[at - 1], live[random.below(at)]);
    ++turn;
  }
  other.join();
  return static_cast<double>(ns) / static_cast<double>(live.size() * (kTurns - kTurns / 5));
}

struct Row {
  const char* name;
  std::vector<double> figures;
};

}  // namespace
}  // namespace cistern::perf

int main() {
  using namespace cistern::perf;
  Row rows[] = {{"two_streams_over_processes", {}}, {"one_stream_over_one_thread", {}}, {"remote_free_ns", {}}};
  for (int round = 0; round < kRounds; ++round) {
    const double processes = two_processes();
    rows[0].figures.push_back(two_threads(1, 2) / processes);
    const double one = one_thread();
    rows[1].figures.push_back(two_threads(1, 1) / one);
    rows[2].figures.push_back(remote_free_ns());
  }
  const char* before = "{";
  for (const Row& row : rows) {
    std::printf("%s\"%s\": [", before, row.name);
    for (std::size_t i = 0; i < row.figures.size(); ++i) std::printf(i == 0 ? "%.3f" : ", %.3f", row.figures[i]);
    before = "], ";
  }
  std::printf("]}\n");
}
