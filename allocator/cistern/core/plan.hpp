// A plan: what a recorded run asked for, in order, and where each request is to lie when the run is repeated. An
// ordinary value; observe/plan_file.hpp has it on disk, observe/make_plan.hpp computes it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cistern/base/ids.hpp"

namespace cistern {

struct PlannedRequest {
  std::size_t bytes = 0;   ///< As asked.
  std::size_t offset = 0;  ///< From the start of the lane's memory.
};

/// What one heap is asked for: that of a stream in a pool.
struct PlanLane {
  StreamId stream;
  PoolId pool;
  std::size_t height_bytes = 0;  ///< The highest end of a request.
  /// After the last request follows this one again: an iterating job repeats its tail. As many as there are requests
  /// if nothing repeats.
  std::size_t repeat_from = 0;
  std::vector<PlannedRequest> requests;
};

struct Plan {
  std::size_t unit_bytes = 512;  ///< Sizes were rounded up to it, offsets are multiples; a power of two.
  std::vector<PlanLane> lanes;   ///< One a stream and pool.
};

/// One sentence if the plan cannot be served at all: sizes of 0, offsets off the unit, ends above the height, a lane
/// twice. Two requests that live at once and overlap are no such thing: one of them will find its place taken.
std::optional<std::string> what_is_wrong(const Plan& plan);

}  // namespace cistern
