#include "models/worker_team.hpp"

namespace cistern::models {
namespace {

constexpr int kBits = 20;
constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
// About 50 us: longer than the serial part between two loops of a step, shorter than a time slice.
constexpr int kSpins = 2000;

std::uint64_t next_of(std::uint64_t ticket) {
  return ticket & kMask;
}
std::uint64_t count_of(std::uint64_t ticket) {
  return ticket >> kBits & kMask;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `value` is no longer `old`: awake for a moment, then asleep.
template <class Value>
void wait_for_change(const std::atomic<Value>& value, Value old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

WorkerTeam::WorkerTeam(int threads) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

WorkerTeam::~WorkerTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  ticket_.fetch_add(std::uint64_t{1} << (2 * kBits), std::memory_order_release);
  ticket_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// False when nothing is left to take.
bool WorkerTeam::take_one() {
  Ticket ticket = ticket_.load(std::memory_order_acquire);
  do {
    if (next_of(ticket) >= count_of(ticket)) return false;
  } while (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  (*work_)(static_cast<std::uint32_t>(next_of(ticket)));
  if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_of(ticket)) done_.notify_all();
  return true;
}

void WorkerTeam::serve() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Ticket seen = ticket_.load(std::memory_order_acquire);
    if (!take_one()) wait_for_change(ticket_, seen);
  }
}

void WorkerTeam::for_each(std::uint32_t count, const std::function<void(std::uint32_t)>& work) {
  work_ = &work;
  done_.store(0, std::memory_order_relaxed);
  const Ticket generation = (ticket_.load(std::memory_order_relaxed) >> (2 * kBits)) + 1;
  ticket_.store(generation << (2 * kBits) | std::uint64_t{count} << kBits, std::memory_order_release);
  ticket_.notify_all();
  while (take_one()) {
  }
  for (std::uint32_t done = done_.load(std::memory_order_acquire); done != count;
       done = done_.load(std::memory_order_acquire)) {
    wait_for_change(done_, done);
  }
}

}  // namespace cistern::models
