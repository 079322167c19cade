#include "cistern/core/plan.hpp"

#include "cistern/base/units.hpp"

namespace cistern {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 60;

std::optional<std::string> what_is_wrong(const PlanLane& lane, std::size_t unit_bytes) {
  if (lane.height_bytes > kMostBytes) return "its height is above 2^60";
  if (lane.repeat_from > lane.requests.size()) return "it repeats from behind its last request";
  for (std::size_t i = 0; i < lane.requests.size(); ++i) {
    const PlannedRequest& request = lane.requests[i];
    const std::string name = "request " + std::to_string(i);
    if (request.bytes == 0) return name + " asks for 0 bytes";
    if (request.offset % unit_bytes != 0) {
      return name + " lies at " + std::to_string(request.offset) + ", no multiple of " + std::to_string(unit_bytes);
    }
    if (request.offset > lane.height_bytes || request.bytes > lane.height_bytes - request.offset) {
      return name + " ends above the height of " + std::to_string(lane.height_bytes);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> what_is_wrong(const Plan& plan) {
  const std::size_t unit = plan.unit_bytes;
  if (unit == 0 || (unit & (unit - 1)) != 0 || unit > kGiB) {
    return "the unit of " + std::to_string(unit) + " bytes is no power of two up to 1 GiB";
  }
  for (std::size_t i = 0; i < plan.lanes.size(); ++i) {
    const PlanLane& lane = plan.lanes[i];
    const std::string name = "lane " + std::to_string(i) + ": ";
    for (std::size_t other = 0; other < i; ++other) {
      if (plan.lanes[other].stream == lane.stream && plan.lanes[other].pool == lane.pool) {
        return name + "stream and pool are those of lane " + std::to_string(other);
      }
    }
    if (const auto wrong = what_is_wrong(lane, unit)) return name + *wrong;
  }
  return std::nullopt;
}

}  // namespace cistern
