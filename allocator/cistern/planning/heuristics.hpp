// Placements in one pass. None is the best everywhere: place() takes the best of several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cistern/planning/placement.hpp"

namespace cistern::planning {

/// Which buffers go first: those whose life^life_power x size^size_power is large, ties to the earlier begin.
struct Preference {
  double life_power = 1.0;
  double size_power = 0.0;
  double noise = 0.0;         ///< Each buffer's logarithm is moved by up to so much, up or down.
  std::uint64_t seed = 0;     ///< Of the noise.
};
std::vector<std::uint32_t> order_by(std::span<const Buffer> buffers, const Preference& preference);

/// Each buffer in turn at the lowest offset that is free for its whole life.
/// Requires an order that names each buffer once. Cost: O(n x buffers alive about the same time).
Placement first_fit(std::span<const Buffer> buffers, std::span<const std::uint32_t> order);

/// Always the lowest of the upper edges gets the first buffer in order that fits there: lowest_line.cpp.
/// Requires as first_fit. Cost: O(n log^2 n) on what programs do.
Placement lowest_line(std::span<const Buffer> buffers, std::span<const std::uint32_t> order);

}  // namespace cistern::planning
