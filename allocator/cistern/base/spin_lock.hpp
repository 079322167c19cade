// The lock of a heap: held for some tens of instructions, never across a system call.
// One locked instruction to take, a plain store to give: about a third of std::mutex once a process has a second
// thread. A waiter looks ever more seldom, then yields, so a preempted holder gets the core back. Under ThreadSanitizer
// it is a std::mutex, which the tool understands better.
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
  /// Looks ever more seldom: who holds the lock may come for it again and again at full speed meanwhile, instead of
  /// handing all that the lock guards from one processor to the other for each operation.
  void wait_and_lock() noexcept {
    constexpr int kFirstPauses = 4;
    constexpr int kMostPauses = 256;
    int pauses = kFirstPauses;
    do {
      for (int i = 0; i < pauses; ++i) pause();
      if (pauses < kMostPauses) pauses *= 2;
      else std::this_thread::yield();
    } while (taken_.load(std::memory_order_relaxed) || taken_.exchange(true, std::memory_order_acquire));
  }
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  }

  std::atomic<bool> taken_{false};
};
#endif

}  // namespace cistern
