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
#include "cistern/observe/replay_streams.hpp"

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

/// How a program is replayed again and again on one allocator.
struct RoundSettings {
  int round_count = 4;
  /// Operations by which the device is behind the host; ReplayStreams::kForever: until it is waited for.
  std::uint64_t device_lag = ReplayStreams::kForever;
};

/// One replay among several on the same allocator.
struct ReplayRound {
  std::uint64_t peak_reserved_bytes = 0;  ///< In this round.
  SourceCalls source_calls;               ///< Of this round alone, as all that follows.
  std::uint64_t mapped_bytes = 0;         ///< Committed, remapped bytes included.
  std::uint64_t wait_count = 0;           ///< Times the allocator waited for the device.
  std::uint64_t failure_count = 0;
  std::optional<Failure> first_failure;
};

/// What mapping a granule costs with CUDA's virtual memory calls, as measured by others: 477 granules of 2 MiB, 40 ms.
inline constexpr double kMapMicroseconds = 80.0;

/// Replays on one allocator, with stream order: what a round left live is freed before the next. Requires a source that
/// holds nothing; leaves it so.
std::vector<ReplayRound> replay_rounds(const ReplayProgram& program, const Options& options, MemorySource& source,
                                       const RoundSettings& settings = {});

/// Replays `pass_count` times, at least once, each on a new allocator over the source; all passes place
/// alike, and all but the time is taken from the first. Streams are kept, without fences: what one frees, all
/// may reuse. Requires a source that holds nothing; leaves it so. Cost: the clock is read twice a pass,
/// around the operations alone.
ReplayResult replay(const ReplayProgram& program, const Options& options, MemorySource& source,
                    int pass_count = 1);

/// One untimed pass under recording: its events in the order of time.
std::vector<Event> replay_events(const ReplayProgram& program, const Options& options, MemorySource& source);

}  // namespace cistern
