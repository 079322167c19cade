// What a heap is asked for and what it hands to those who call the source for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/base/units.hpp"
#include "cistern/core/block_table.hpp"
#include "cistern/core/memory_source.hpp"
#include "cistern/core/stats.hpp"

namespace cistern {

/// A request after rounding.
struct Need {
  std::size_t requested_bytes = 0;
  std::size_t granted_bytes = 0;  ///< Multiple of the least block.
  std::size_t alignment = 0;      ///< At least the least block.
  bool small = false;             ///< Below the size from which blocks are large.
  std::size_t block_class = kLargeBlocks;  ///< That serves it: with ranges, a free index and gauges of its own.
  /// Bytes that any free block must have to hold it, wherever it starts.
  std::size_t span_bytes(std::size_t least_block) const noexcept {
    return granted_bytes + (CISTERN_MUTANT(I7_span_without_alignment) ? 0 : alignment - least_block);
  }
};

enum class RangeKind : std::uint8_t {
  kLarge,    ///< For large blocks, or for all when small ones have no ranges of their own.
  kSmall,
  kPlanned,  ///< As kLarge, and the places of a plan count from its start.
};

struct Range {
  SourceRange source;
  BlockIndex border = kNoBlock;  ///< A hole of no bytes that the blocks tiling the range follow; kNoBlock: unused slot.
  bool small = false;
  std::size_t committed_bytes = 0;
  bool planned = false;
};

/// Neighbouring blocks taken out of circulation (kClaimed) while the source is called without the heap's lock.
struct Claim {
  struct Piece {
    BlockIndex block = kNoBlock;
    std::size_t offset = 0;  ///< Within the range.
    std::size_t bytes = 0;
    bool hole = false;       ///< Else it was free, and has memory.
  };
  SourceRange range;
  std::uint32_t range_slot = 0;
  std::vector<Piece> pieces;   ///< In address order.
  std::size_t hole_bytes = 0;  ///< Without memory.
  std::size_t free_bytes = 0;  ///< With memory.
};

/// What differs between devices, fixed at construction.
struct HeapRules {
  std::size_t least_block_bytes = 512;
  std::size_t granule_bytes = 2 * kMiB;
  std::size_t small_block_bytes = kMiB;
  bool separate_small_ranges = true;  ///< Else small blocks are cut from the top end of large free blocks.
  DeviceId device;
};

}  // namespace cistern
