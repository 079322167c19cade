// What goes into the allocator and comes out of it: requests, allocations, and what a snapshot shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/core/block.hpp"
#include "cistern/core/memory_source.hpp"

namespace cistern {

struct Request {
  std::size_t bytes = 0;      ///< At least 1.
  std::size_t alignment = 1;  ///< A power of two, at most the granule; the least block is the least alignment given.
  StreamId stream{};          ///< Where the block will be used first. Without fences: a shard, any number.
  PoolId pool{};              ///< From create_pool, or the default pool.
};

struct Allocation {
  Address address = 0;
  std::size_t requested_bytes = 0;
  std::size_t granted_bytes = 0;
};

/// What a live grant is, and whose.
struct LiveBlock : Allocation {
  StreamId stream;
  PoolId pool;
  bool used_elsewhere = false;  ///< Other streams were recorded: a free makes it pending.
};

struct RangePlace {
  SourceRange range;
  StreamId stream;
  PoolId pool;
};

enum class FreeOutcome : std::uint8_t {
  kFreed,        ///< Reusable at once.
  kPending,      ///< A stream still uses it; it becomes free when its fences are done.
  kNotLive,      ///< No live grant has this address: never granted, freed before, or inside a block. Nothing changed.
};

struct BlockInfo {
  Address address = 0;
  std::size_t bytes = 0;
  std::size_t requested_bytes = 0;  ///< Of active blocks.
  BlockState state = BlockState::kFree;
};

struct RangeInfo {
  Address address = 0;
  std::size_t bytes = 0;  ///< Address space.
  std::size_t committed_bytes = 0;
  StreamId stream;
  PoolId pool;
  bool small = false;
  std::vector<BlockInfo> blocks;  ///< Tiling the range in address order.
};

}  // namespace cistern
