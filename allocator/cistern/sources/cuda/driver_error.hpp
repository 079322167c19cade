// What a driver call that failed is called, and where errors wait that nobody could be told of.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace cistern {

/// A call of the CUDA runtime or driver that failed otherwise than by running out of memory.
class DriverError : public std::runtime_error {
 public:
  /// The text becomes "cuMemMap failed: <text>". Requires that the call's name is never destroyed: a literal.
  DriverError(const char* call, int code, const std::string& text)
      : std::runtime_error(call + (" failed: " + text)), call_(call), code_(code) {}

  const char* call() const noexcept { return call_; }
  int code() const noexcept { return code_; }  ///< As in cudaError_t and CUresult; 0 if none was returned.

 private:
  const char* call_;
  int code_;
};

/// Faults on paths that must not throw (frees, giving back): counted, and the first one kept for whoever may be told.
/// Threads: all members from any thread at once.
class KeptFaults {
 public:
  void keep(const DriverError& error) noexcept {
    const std::scoped_lock lock(mutex_);
    if (!first_) first_ = error;
    waiting_.store(true, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Whether one waits. Cost: one relaxed load.
  bool any() const noexcept { return waiting_.load(std::memory_order_relaxed); }
  /// Cost: one relaxed load unless there is one.
  std::optional<DriverError> take() {
    if (!waiting_.load(std::memory_order_relaxed)) return std::nullopt;
    const std::scoped_lock lock(mutex_);
    waiting_.store(false, std::memory_order_relaxed);
    return std::exchange(first_, std::nullopt);
  }
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::optional<DriverError> first_;
  std::atomic<bool> waiting_{false};
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace cistern
