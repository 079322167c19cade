// What every driver of cistern-bench does: one allocator in one process, asked by lines on the standard
// input.
//
//   replay ROUNDS CAPACITY FILE     the trace, ROUNDS times on one allocator, which is not made anew in
//   between timeline CAPACITY FILE          one round, with what is live and reserved over its operations fit
//   STEP CAPACITY FILE          the smallest device, in steps, that serves the trace once pairs BYTES THREADS
//   last in, first out: nanoseconds of one allocation and one free churn LIVE THREADS              the same,
//   of any of LIVE blocks of 512 B to 8 MiB
//
// Each is answered by one line of JSON. Sizes are in bytes. C++17, because peers' headers want no more.
// A second thread is alive all the time, as in any program with torch: locks then cost what they cost there.
//
// An Allocator has
//   explicit Allocator(const std::string& variant)     throws std::invalid_argument
//   void start(std::uint64_t capacity_bytes, std::uint64_t wish_bytes)   anew, on an empty device; what
//   preallocates takes
//                                                       wish_bytes of it
//   void stop()                                         nothing is live any more
//   void* allocate(std::uint64_t bytes, std::uint64_t stream, unsigned pool)   null: out of memory; pool 0 is
//   the common one void free(void* data, std::uint64_t bytes, std::uint64_t stream) void use(void* data,
//   std::uint64_t stream)          another stream uses the block too void sync(std::uint64_t stream) the host
//   has waited for the stream void step()                                         one operation later Usage
//   usage()
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <iostream>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cistern/observe/fit.hpp"
#include "cistern/observe/replay_program.hpp"

namespace cistern::bench {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

/// What an allocator took from its device so far.
struct Usage {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t source_calls =
      0;  ///< Calls that take memory or address space from the device, or give it back.
  std::uint64_t mapped_bytes = 0;  ///< By mapping granules; memory taken otherwise does not count.
};

inline double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Sleeps until the end of the program.
class SecondThread {
 public:
  SecondThread() : thread_([this] { sleep(); }) {}
  ~SecondThread() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

 private:
  void sleep() {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return over_; });
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

/// One trace on one allocator.
template <class Allocator>
class TraceRun {
 public:
  TraceRun(Allocator& allocator, const ReplayProgram& program)
      : allocator_(allocator), program_(program), blocks_(program.block_count) {}

  /// Runs the operations in order until one fails; `after` is called behind each. False: one failed.
  template <class After>
  bool run(After after) {
    for (const ReplayOperation& operation : program_.operations) {
      if (!perform(operation)) return false;
      allocator_.step();
      after(operation);
    }
    return true;
  }
  bool run() {
    return run([](const ReplayOperation&) {});
  }

  /// Frees what is live.
  void finish() {
    for (Block& block : blocks_) {
      if (block.data != nullptr) allocator_.free(block.data, block.bytes, block.stream);
      block.data = nullptr;
    }
  }

 private:
  struct Block {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t stream = 0;
  };

  bool perform(const ReplayOperation& operation) {
    switch (operation.action) {
      case ReplayOperation::Action::kAllocate: {
        void* data = allocator_.allocate(operation.bytes, operation.stream, operation.pool);
        blocks_[operation.block] = {data, operation.bytes, operation.stream};
        return data != nullptr;
      }
      case ReplayOperation::Action::kFree: {
        Block& block = blocks_[operation.block];
        allocator_.free(block.data, block.bytes, block.stream);
        block.data = nullptr;
        return true;
      }
      case ReplayOperation::Action::kUse:
        allocator_.use(blocks_[operation.block].data, operation.stream);
        return true;
      case ReplayOperation::Action::kSync:
        allocator_.sync(operation.stream);
        return true;
    }
    return false;
  }

  Allocator& allocator_;
  const ReplayProgram& program_;
  std::vector<Block> blocks_;
};

/// What a trace's preallocation gets in order to be timed; how little would do is fit's question.
inline std::uint64_t generous_bytes(const ReplayProgram& program) {
  return program.lower_bound_bytes / 4 * 5;
}

template <class Allocator>
Json replay(Allocator& allocator, const ReplayProgram& program, int round_count,
            std::uint64_t capacity_bytes) {
  allocator.start(capacity_bytes, generous_bytes(program));
  TraceRun<Allocator> run(allocator, program);
  Json rounds = Json::array();
  bool completed = true;
  Usage before;
  for (int round = 0; completed && round < round_count; ++round) {
    const Clock::time_point start = Clock::now();
    completed = run.run();
    const double ns = nanoseconds_since(start) / static_cast<double>(program.operations.size());
    run.finish();
    const Usage after = allocator.usage();
    rounds.push_back({{"ns_per_operation", ns},
                      {"source_calls", after.source_calls - before.source_calls},
                      {"mapped_bytes", after.mapped_bytes - before.mapped_bytes}});
    before = after;
  }
  allocator.stop();
  return {{"operations", program.operations.size()},
          {"lower_bound_bytes", program.lower_bound_bytes},
          {"completed", completed},
          {"peak_reserved_bytes", before.peak_reserved_bytes},
          {"rounds", rounds}};
}

/// The highest value of each of at most kSlices equal stretches of the operations.
template <class Allocator>
Json timeline(Allocator& allocator, const ReplayProgram& program, std::uint64_t capacity_bytes) {
  constexpr std::size_t kSlices = 400;
  const std::size_t count = std::min(kSlices, program.operations.size());
  std::vector<std::uint64_t> live(count), reserved(count);
  std::uint64_t live_bytes = 0;
  std::size_t number = 0;
  allocator.start(capacity_bytes, generous_bytes(program));
  TraceRun<Allocator> run(allocator, program);
  const bool completed = run.run([&](const ReplayOperation& operation) {
    if (operation.action == ReplayOperation::Action::kAllocate) live_bytes += operation.bytes;
    if (operation.action == ReplayOperation::Action::kFree) live_bytes -= operation.bytes;
    const std::size_t slice = number++ * count / program.operations.size();
    live[slice] = std::max(live[slice], live_bytes);
    reserved[slice] = std::max(reserved[slice], allocator.usage().reserved_bytes);
  });
  run.finish();
  allocator.stop();
  return {{"completed", completed}, {"live_bytes", live}, {"reserved_bytes", reserved}};
}

template <class Allocator>
Json fit(Allocator& allocator, const ReplayProgram& program, std::uint64_t step_bytes,
         std::uint64_t capacity_bytes) {
  constexpr std::uint64_t kMostSmaller = 64;  // peers take seconds for a trace
  const auto completes = [&](std::uint64_t device_bytes) {
    allocator.start(device_bytes, device_bytes);
    TraceRun<Allocator> run(allocator, program);
    const bool completed = run.run();
    run.finish();
    allocator.stop();
    return completed;
  };
  // Four times what is live is more than anybody needs, and a preallocation of a whole device takes minutes
  // to prepare.
  const FitResult result =
      find_smallest_fit(program.lower_bound_bytes, std::min(capacity_bytes, 4 * program.lower_bound_bytes),
                        step_bytes, kMostSmaller, completes);
  return {{"lower_bound_bytes", program.lower_bound_bytes},
          {"fits", result.fits},
          {"smallest_bytes", result.smallest_bytes},
          {"smaller_tried", result.smaller_tried},
          {"smaller_count", result.smaller_count}};
}

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

template <class Allocator>
Json answer(Allocator& allocator, const std::string& line) {
  std::istringstream words(line);
  std::string command, file;
  words >> command;
  std::uint64_t first = 0, second = 0;
  words >> first;
  if (command != "timeline") words >> second;
  if (command == "pairs") return measure_pairs(allocator, first, 0, static_cast<std::size_t>(second));
  if (command == "churn") {
    return measure_pairs(allocator, 0, static_cast<std::size_t>(first), static_cast<std::size_t>(second));
  }
  std::getline(words >> std::ws, file);
  const ReplayProgram program = load_replay_program(file);
  if (command == "replay") return replay(allocator, program, static_cast<int>(first), second);
  if (command == "timeline") return timeline(allocator, program, first);
  if (command == "fit") return fit(allocator, program, first, second);
  throw std::invalid_argument("unknown command \"" + command + "\"");
}

template <class Allocator>
int run_driver(int argc, char** argv) {
  try {
    if (argc != 2) throw std::invalid_argument("one argument is expected: which variant of the allocator");
    Allocator allocator{std::string(argv[1])};
    const SecondThread second_thread;
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(allocator, line) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "driver: " << error.what() << '\n';
    return dynamic_cast<const std::invalid_argument*>(&error) != nullptr ? 2 : 1;
  }
}

}  // namespace cistern::bench
