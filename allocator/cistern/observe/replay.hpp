// Runs a trace's allocations and frees again, on another strategy and another memory, and says what they cost
// there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cistern/core/config.hpp"
#include "cistern/core/event.hpp"
#include "cistern/core/failure.hpp"
#include "cistern/core/memory_source.hpp"
#include "cistern/core/stats.hpp"
#include "cistern/observe/replay_program.hpp"

namespace cistern {

struct ReplayResult {
  std::uint64_t lower_bound_bytes = 0;  ///< Of the program.
  std::uint64_t peak_reserved_bytes = 0;
  double ratio = 0.0;  ///< peak_reserved_bytes / lower_bound_bytes
  double ns_per_operation =
      0.0;  ///< Allocations and frees alike, source calls included; median of the passes.
  double warm_ns_per_operation = 0.0;  ///< The same again on the allocator that has grown already.
  std::uint64_t placement_hash =
      0;  ///< Over the address of every allocation, in order: the same placement, the same number.
  std::uint64_t failure_count = 0;  ///< Allocations refused; their frees are left out.
  std::optional<Failure> first_failure;
  Stats stats;  ///< After the last operation of the trace.
};

/// What a replay preallocates unless told: 1.05 x the lower bound, rounded up to the granule.
std::size_t default_preallocate_bytes(const ReplayProgram& program, std::size_t granule_bytes) noexcept;

/// Replays `pass_count` times, at least once, each on a new allocator over the source; all passes place
/// alike, and all but the time is taken from the first. Streams are kept, without fences: what one frees, all
/// may reuse. Requires a source that holds nothing; leaves it so. Cost: the clock is read twice a pass,
/// around the operations alone.
ReplayResult replay(const ReplayProgram& program, const Options& options, MemorySource& source,
                    int pass_count = 1);

/// One untimed pass under recording: its events in the order of time.
std::vector<Event> replay_events(const ReplayProgram& program, const Options& options, MemorySource& source);

}  // namespace cistern
