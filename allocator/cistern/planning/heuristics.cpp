#include "cistern/planning/heuristics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "cistern/planning/time_index.hpp"

namespace cistern::planning {

std::vector<std::uint32_t> order_by(std::span<const Buffer> buffers, const Preference& preference) {
  std::mt19937_64 random(preference.seed);
  std::vector<double> weights;
  weights.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    const auto life = static_cast<double>(buffer.upper - buffer.lower);
    const double moved = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;  // in [-1, 1)
    weights.push_back(preference.life_power * std::log2(life) +
                      preference.size_power * std::log2(static_cast<double>(buffer.size)) + preference.noise * moved);
  }
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (weights[a] != weights[b]) return weights[a] > weights[b];
    return buffers[a].lower != buffers[b].lower ? buffers[a].lower < buffers[b].lower : a < b;
  });
  return order;
}

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
