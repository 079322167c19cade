// A program's one contact with the allocator: puts it under torch's tensors and asks it how it went.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/device.hpp"
#include "apps/common/memory_report.hpp"
#include "cistern/core/config.hpp"

namespace cistern {
class CachingAllocator;
}

namespace cistern::apps {

class MemorySetup {
 public:
  /// Installs the allocator: with the options under tensors of the device, and where that is not the CPU,
  /// with the defaults under host and pinned memory too. Without options torch's own stays. CISTERN_CONF is
  /// taken as read: it is no longer looked at. Throws FileError where the trace of the options cannot be
  /// written.
  MemorySetup(const ChosenDevice& device, const std::optional<Options>& options);

  /// Gives back what is free: loading needs memory that the work after it does not.
  void give_back_idle();

  /// Leaves a mark in the trace, and remembers the source calls up to the end of the first period: of what
  /// the program repeats, an epoch or a batch.
  void end_period(std::int64_t period);

  /// The figures now; `working_seconds` is what the share of time refers to.
  MemoryReport report(double working_seconds) const;

 private:
  struct Memory {
    std::string name;
    CachingAllocator* allocator;
  };

  void install(const Options& options);
  std::vector<MemoryResult> figures() const;

  const ChosenDevice device_;
  const std::string strategy_;
  std::vector<Memory> memories_;  // the device computed on first
  std::optional<std::vector<MemoryResult>> after_first_period_;
};

/// Of this process, since its start.
std::uint64_t page_faults();

}  // namespace cistern::apps
