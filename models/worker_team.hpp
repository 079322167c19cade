// A few threads that share one loop, thousands of times a second, on a machine that may be busy.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace cistern::models {

/// Why not OpenMP: its threads meet at a barrier that all must reach, and spin there. When another program
/// takes a core, a step of 0.4 ms then waits for that core's time slice (a 0.9 s epoch took 24 s). Here a
/// thread that does not get to run simply takes no share, and nobody waits for it.
class WorkerTeam {
 public:
  /// The calling thread is one of them.
  explicit WorkerTeam(int threads);
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;
  ~WorkerTeam();

  /// Calls work(0) ... work(count - 1), each once, in any order and on any thread; returns when all are done.
  /// Requires count below 2^20, and that work does not throw. Threads: one caller at a time.
  void for_each(std::uint32_t count, const std::function<void(std::uint32_t)>& work);

 private:
  // generation : 24 | count : 20 | next : 20. One word, so that a late thread cannot mix up two loops.
  using Ticket = std::uint64_t;

  bool take_one();
  void serve();

  std::atomic<Ticket> ticket_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> stopping_{false};
  const std::function<void(std::uint32_t)>* work_ = nullptr;  // Stable while any claimed index is unfinished.
  std::vector<std::thread> threads_;
};

}  // namespace cistern::models
