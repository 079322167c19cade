// The lanes of a plan while they are served: per heap, where the job is and which places are taken.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cistern/core/heap.hpp"
#include "cistern/core/place_set.hpp"
#include "cistern/core/plan.hpp"
#include "cistern/core/plan_cursor.hpp"

namespace cistern {

/// What lies at a place of the plan.
struct PlaceState {
  enum class Kind : std::uint8_t { kFree, kLacksMemory, kTaken };
  Kind kind = Kind::kTaken;
  BlockIndex block = kNoBlock;  ///< That holds the start of the place.
  Address address = 0;
};

/// Threads: all but the constants and the heap's address is guarded by the heap's lock.
class PlannedLane {
 public:
  PlannedLane(const PlanLane& lane, std::size_t least_block_bytes)
      : stream(lane.stream),
        pool(lane.pool),
        height_bytes(lane.height_bytes),
        cursor(lane, least_block_bytes),
        taken_(cursor.place_count()) {}

  const StreamId stream;
  const PoolId pool;
  const std::size_t height_bytes;
  std::atomic<Heap*> heap{nullptr};  ///< Set once, under the growth mutex.
  PlanCursor cursor;
  /// No address space was to be had for it: everything is served online from then on. Guarded by the growth mutex.
  bool refused = false;

  /// The range that the offsets count from, or nothing. Requires the heap of the lane.
  const Range* range(const Heap& of) noexcept;
  /// Requires range(), and that no block rests. Cost: O(log of the places), and O(blocks from the nearest live planned
  /// block below), which are one free block and what deviated.
  PlaceState look_at(Heap& of, std::uint32_t place, const Need& need) noexcept;
  void take(std::uint32_t place) noexcept { taken_.insert(place); }

 private:
  std::uint32_t slot_ = 0;
  PlaceSet taken_;  ///< Places granted once; those freed since are taken out when met.
};

/// Threads: find() needs no lock, lanes neither come nor go.
class PlannedLanes {
 public:
  /// Requires a plan that can be served.
  PlannedLanes(const Plan& plan, const HeapRules& rules);

  /// Cost: O(log of the lanes).
  PlannedLane* find(PoolId pool, StreamId stream) const noexcept;
  /// What the whole plan reserves, in granules.
  std::size_t bytes() const noexcept { return bytes_; }
  /// No request so far was another than the plan expected: what is reserved ends at bytes(), so nothing is remapped and
  /// each place gets its memory. After the first deviation that is no longer known, and memory is used where it is.
  bool followed() const noexcept { return !deviated_.load(std::memory_order_relaxed); }
  void deviated() noexcept { deviated_.store(true, std::memory_order_relaxed); }

 private:
  std::vector<std::unique_ptr<PlannedLane>> lanes_;  // by pool and stream
  std::size_t bytes_ = 0;
  std::atomic<bool> deviated_{false};
};

}  // namespace cistern
