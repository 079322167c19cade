#include "cistern/planning/heuristics.hpp"

#include <algorithm>

#include "cistern/planning/time_index.hpp"

namespace cistern::planning {

Placement first_fit(std::span<const Buffer> buffers, std::span<const std::uint32_t> order) {
  Placement placement;
  placement.offsets.resize(buffers.size());
  TimeIndex placed(buffers);
  for (const std::uint32_t index : order) {
    const Buffer& buffer = buffers[index];
    const std::uint64_t offset = placed.lowest_gap(buffer);
    placed.place(buffer, offset);
    placement.offsets[index] = offset;
    placement.height = std::max(placement.height, offset + buffer.size);
  }
  return placement;
}

}  // namespace cistern::planning
