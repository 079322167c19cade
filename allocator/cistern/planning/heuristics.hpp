// Placements in one pass. None is the best everywhere: place() takes the best of several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cistern/planning/placement.hpp"

namespace cistern::planning {

/// Each buffer in turn at the lowest offset that is free for its whole life.
/// Requires an order that names each buffer once. Cost: O(n x buffers alive about the same time).
Placement first_fit(std::span<const Buffer> buffers, std::span<const std::uint32_t> order);

}  // namespace cistern::planning
