// Replaces operator new of the whole program, to count host allocations and to make one of them fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cistern::support {

/// Calls of operator new by this thread so far.
std::uint64_t host_allocation_count() noexcept;

/// Bytes that this thread took by operator new and gave not back, as large as the host made them.
std::int64_t host_bytes() noexcept;

/// While it lives, the `nth` call (from 1) of operator new by this thread fails, and all after it too.
class FailingHostAllocations {
 public:
  explicit FailingHostAllocations(std::uint64_t nth) noexcept;
  ~FailingHostAllocations();
  FailingHostAllocations(const FailingHostAllocations&) = delete;
  FailingHostAllocations& operator=(const FailingHostAllocations&) = delete;

  /// Whether a call was failed yet.
  bool struck() const noexcept;

  /// While it lives, calls succeed, and are not counted.
  class Pause {
   public:
    Pause() noexcept;
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };
};

}  // namespace cistern::support
