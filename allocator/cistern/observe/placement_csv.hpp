// Offline placement problems as text, as MiniMalloc and idealloc have them, plain or gzip: the header
// id,lower,upper,size, then a line a buffer. The answer has a column more: id,lower,upper,size,offset.
#pragma once

#include <string>
#include <vector>

#include "cistern/planning/placement.hpp"

namespace cistern {

struct PlacementProblem {
  std::vector<std::string> ids;
  std::vector<planning::Buffer> buffers;
};

/// Whether the first line that is no comment is the header of a placement problem. Throws FileError if it cannot be
/// read.
bool is_placement_csv(const std::string& path);

/// Throws FileError naming file and line: wrong number of fields, an empty id or one twice, not a number, a life that
/// ends before it begins, 0 bytes, sizes that sum to more than 2^60, no header, no buffer.
PlacementProblem load_placement_csv(const std::string& path);

/// The name shows nothing until all is written. Throws FileError.
void write_placement_csv(const std::string& path, const PlacementProblem& problem,
                         const planning::Placement& placement);

}  // namespace cistern
