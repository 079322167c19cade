// The trainer's one contact with the allocator: puts it under torch's CPU tensors and asks it how it went.
#pragma once

#include <cstdint>
#include <optional>

#include "apps/train/results.hpp"
#include "cistern/core/config.hpp"

namespace cistern {
class CachingAllocator;
}

namespace cistern::train {

class MemorySetup {
 public:
  /// Installs the allocator. Without options torch's own stays, and every other member does nothing.
  /// CISTERN_CONF is taken as read: it is no longer looked at. Throws FileError where the trace of the
  /// options cannot be written.
  explicit MemorySetup(const std::optional<Options>& options);

  /// Leaves a mark in the trace, and remembers the source calls up to the end of the first epoch.
  void end_epoch(std::int64_t epoch);

  /// The figures now; `training_seconds` is what the share of time refers to.
  std::optional<AllocatorResult> result(double training_seconds) const;

 private:
  CachingAllocator* allocator_ = nullptr;
  std::optional<std::uint64_t> calls_in_first_epoch_;
};

/// Of this process, since its start.
std::uint64_t page_faults();
std::uint64_t peak_rss_bytes();

}  // namespace cistern::train
