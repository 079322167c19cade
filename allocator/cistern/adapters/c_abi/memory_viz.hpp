// A snapshot in the form that PyTorch's memory visualiser reads: a pickled dict of plain types.
#pragma once

#include <string>
#include <vector>

#include "cistern/core/allocation.hpp"

namespace cistern {

/// Each stretch of a range that has memory becomes a segment; blocks tile it. There are no stack frames and no history.
std::string pickle_for_memory_viz(const std::vector<RangeInfo>& ranges, int device_index);

}  // namespace cistern
