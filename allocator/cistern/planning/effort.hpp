// How long to look for a better placement.
#pragma once

#include <chrono>

namespace cistern::planning {

/// Whoever searches asks now and then whether to go on, and keeps the best it has when not.
struct Effort {
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline = Clock::time_point::max();

  static Effort for_seconds(double seconds) {
    return {Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))};
  }
  bool spent() const noexcept { return deadline != Clock::time_point::max() && Clock::now() >= deadline; }
};

}  // namespace cistern::planning
