// What is counted, in PyTorch's terms. requested <= allocated <= active <= reserved at every instant.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cistern {

/// One quantity: now, its highest value since reset_peak, and what went in and out since reset_accumulated.
struct Stat {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;
  std::uint64_t allocated = 0;
  std::uint64_t freed = 0;
};

/// The rungs of CachingAllocator::allocate, in order; a report says which rung served each request.
enum class Rung : std::uint8_t { kFit, kReap, kGrow, kTrim, kWait, kFail };
inline constexpr std::size_t kRungCount = 6;
const char* rung_name(Rung rung) noexcept;

struct SourceCalls {
  std::uint64_t reserve = 0;
  std::uint64_t commit = 0;
  std::uint64_t decommit = 0;
  std::uint64_t unreserve = 0;
  std::uint64_t refused = 0;         ///< Of reserve and commit.
  std::uint64_t remapped_bytes = 0;  ///< Decommitted here to be committed there by a miss.
  std::uint64_t total() const noexcept { return reserve + commit + decommit + unreserve; }
  /// Of the time between: requires that `earlier` was.
  SourceCalls operator-(const SourceCalls& earlier) const noexcept {
    return {reserve - earlier.reserve,     commit - earlier.commit,   decommit - earlier.decommit,
            unreserve - earlier.unreserve, refused - earlier.refused, remapped_bytes - earlier.remapped_bytes};
  }
};

/// Small blocks have ranges of their own, unless the allocator was made to preallocate: then every block is large.
inline constexpr std::size_t kSmallBlocks = 0, kLargeBlocks = 1, kClassCount = 2;
inline constexpr std::size_t kAllBlocks = kClassCount, kCountedCount = kClassCount + 1;

/// What is counted of all blocks of a device, or of one class.
struct BlockStats {
  // Bytes.
  Stat requested;       ///< As asked by callers.
  Stat allocated;       ///< Granted: rounded to the least block.
  Stat active;          ///< Granted, or freed but still used by a stream.
  Stat reserved;        ///< Committed by the source.
  Stat inactive_split;  ///< Free, beside a block in use: cannot be returned whole. With several heaps its peak is the
                        ///< sum of the heaps' peaks, an upper bound; every other peak is exact.
  // Counts.
  Stat allocations;
  Stat active_blocks;
  Stat segments;        ///< Ranges holding memory.
  Stat inactive_split_blocks;
};

struct Stats : BlockStats {
  std::array<BlockStats, kClassCount> of_class;

  std::array<std::uint64_t, kRungCount> served{};  ///< Requests served at each rung; the last counts failures.
  SourceCalls source_calls;
  std::uint64_t limit_bytes = 0;                   ///< The largest number when there is none.
  std::uint64_t largest_free_bytes = 0;
  std::uint64_t pending_bytes = 0;
  std::uint64_t dropped_events = 0;
};

}  // namespace cistern
