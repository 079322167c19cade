// From a recorded run to the plan that serves it again.
#pragma once

#include <cstddef>

#include "cistern/observe/plan_file.hpp"
#include "cistern/observe/replay_program.hpp"
#include "cistern/observe/trace.hpp"

namespace cistern {

struct PlanOptions {
  std::size_t unit_bytes = 512;  ///< Sizes are rounded up to it; of a trace of events, as its blocks were, if finer.
  /// A lane within its lower bound rounded up to this is good enough: memory comes by the granule.
  std::size_t granule_bytes = 2 * kMiB;
  double seconds = 20.0;  ///< Most time to spend on each lane.
};

/// One lane a stream. What is live at the end stays so.
PlanFile make_plan(const ReplayProgram& program, const PlanOptions& options = {});
/// One lane a stream and pool. A block that another stream used keeps its place until it was seen ready.
/// Throws FileError, naming `path`, for a trace that contradicts itself or holds no allocation.
PlanFile make_plan(const Trace& trace, const std::string& path, const PlanOptions& options = {});

}  // namespace cistern
