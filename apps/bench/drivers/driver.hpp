// What every driver of cistern-bench does: one allocator in one process, asked by lines on its input.
//
//   replay ROUNDS CAPACITY FILE   the trace ROUNDS times, all on one allocator
//   timeline CAPACITY FILE        one round: what is live and reserved over the operations
//   fit STEP CAPACITY FILE        the smallest device, in steps, that serves the trace once
//   pairs BYTES THREADS           last in, first out: nanoseconds of one allocation and one free
//   churn LIVE THREADS            the same, of any of LIVE blocks of 512 B to 8 MiB
//
// Each is answered by one line of JSON. Sizes are in bytes. C++17, because peers' headers want no more.
// A second thread is alive all the time, as in any program with torch: locks then cost what they cost
// there.
#pragma once

#include <condition_variable>
#include <exception>
#include <iostream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "cistern/observe/replay_program.hpp"
#include "figures.hpp"
#include "pairs.hpp"
#include "trace_run.hpp"

namespace cistern::bench {

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
