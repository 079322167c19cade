// Plans on disk, as JSON, plain or (by a name ending in .gz) gzip:
//
//   {"cistern_plan": 1,            the version
//    "lower_bound_bytes": N,       of what was recorded, all streams together
//    "unit_bytes": 512,
//    "lanes": [{"stream": 0, "pool": 0, "height_bytes": N, "repeat_from": N,
//               "requests": [[bytes, offset], ...]}]}
#pragma once

#include <cstdint>
#include <string>

#include "cistern/core/config.hpp"
#include "cistern/core/plan.hpp"

namespace cistern {

struct PlanFile {
  Plan plan;
  std::uint64_t lower_bound_bytes = 0;
};

/// The name shows nothing until all is written. Throws FileError.
void write_plan(const std::string& path, const PlanFile& file);

/// Throws FileError: cannot be read, no JSON (naming the byte), another version, a field that is missing, unknown, or
/// no number of its range, or a plan that cannot be served.
PlanFile read_plan(const std::string& path);

/// The options with what plan_file holds in `plan`, if the strategy is plan and it is not there yet. Throws FileError,
/// also for a plan of blocks smaller than the options have, and std::invalid_argument if there is neither.
Options with_plan(Options options);

}  // namespace cistern
