// An independent verdict on a placement: goes through time with the buffers alive at each moment in a map by offset.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cistern/planning/placement.hpp"

namespace cistern::support {

/// What is wrong with the offsets, or nothing.
inline std::optional<std::string> broken_placement(const std::vector<planning::Buffer>& buffers,
                                                   const planning::Placement& placement) {
  if (placement.offsets.size() != buffers.size()) return "not one offset a buffer";
  // (time, begins, buffer): what ends at a time goes before what begins then.
  std::map<std::tuple<std::uint64_t, bool, std::size_t>, std::size_t> moments;
  std::uint64_t top = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    moments[{buffers[i].lower, true, i}] = i;
    moments[{buffers[i].upper, false, i}] = i;
    if (placement.offsets[i] + buffers[i].size > top) top = placement.offsets[i] + buffers[i].size;
  }
  if (top != placement.height) {
    return "the height is " + std::to_string(placement.height) + ", the highest end " + std::to_string(top);
  }
  std::map<std::uint64_t, std::size_t> alive;  // by offset
  for (const auto& [moment, i] : moments) {
    const std::uint64_t offset = placement.offsets[i];
    if (!std::get<1>(moment)) {
      alive.erase(offset);
      continue;
    }
    const auto above = alive.lower_bound(offset);
    std::optional<std::size_t> other;
    if (above != alive.end() && above->first < offset + buffers[i].size) other = above->second;
    if (above != alive.begin()) {
      const std::size_t below = std::prev(above)->second;
      if (placement.offsets[below] + buffers[below].size > offset) other = below;
    }
    if (other) return "buffers " + std::to_string(i) + " and " + std::to_string(*other) + " overlap";
    alive[offset] = i;
  }
  return std::nullopt;
}

}  // namespace cistern::support
