// The lock of a heap: held for some tens of instructions, never across a system call.
// One locked instruction to take, a plain store to give: about a third of std::mutex once a process has a second
// thread. A waiter spins briefly, then yields, so a preempted holder gets the core back. Under ThreadSanitizer it is a
// std::mutex, which the tool understands better.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#if defined(__SANITIZE_THREAD__)
#define CISTERN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CISTERN_TSAN 1
#endif
#endif

namespace cistern {

#ifdef CISTERN_TSAN
using SpinLock = std::mutex;
#else
class SpinLock {
 public:
  void lock() noexcept {
    if (!taken_.exchange(true, std::memory_order_acquire)) [[likely]] return;
    wait_and_lock();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  void wait_and_lock() noexcept {
    constexpr int kSpins = 64;
    do {
      for (int spin = 0; taken_.load(std::memory_order_relaxed); ++spin) {
        if (spin >= kSpins) std::this_thread::yield();
#if defined(__x86_64__)
        else __builtin_ia32_pause();
#endif
      }
    } while (taken_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> taken_{false};
};
#endif

}  // namespace cistern
