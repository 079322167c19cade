#include "cistern/planning/placement.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cistern/planning/exact_search.hpp"
#include "cistern/planning/heuristics.hpp"

namespace cistern::planning {

std::uint64_t lower_bound(std::span<const Buffer> buffers) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> changes;  // when, by how much; what ends goes before what begins
  changes.reserve(2 * buffers.size());
  for (const Buffer& buffer : buffers) {
    changes.emplace_back(buffer.lower, buffer.size);
    changes.emplace_back(buffer.upper, std::uint64_t{0} - buffer.size);
  }
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::uint64_t alive = 0;
  std::uint64_t most = 0;
  for (const auto& [time, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return most;
}

std::uint64_t height_of(std::span<const Buffer> buffers, std::span<const std::uint64_t> offsets) {
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) height = std::max(height, offsets[i] + buffers[i].size);
  return height;
}

Placement place(std::span<const Buffer> buffers, const PlaceOptions& options) {
  const std::uint64_t least = lower_bound(buffers);
  const std::uint64_t enough = std::max(options.capacity.value_or(least), least);
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return buffers[a].size > buffers[b].size; });
  Placement best = first_fit(buffers, order);
  if (best.height > enough && buffers.size() <= options.exact_buffers) {
    SearchResult found = search_exactly(buffers, enough, options.effort);
    if (found.end == SearchEnd::kFound) best = {std::move(found.offsets), 0};
    best.height = height_of(buffers, best.offsets);
  }
  return best;
}

}  // namespace cistern::planning
