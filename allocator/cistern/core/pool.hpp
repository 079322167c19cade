// A pool: one more set of heaps over the same source, with a limit of its own below the device's.
#pragma once

#include <atomic>
#include <cstddef>

#include "cistern/core/budget.hpp"

namespace cistern {

struct PoolOptions {
  std::size_t limit_bytes = kNoLimit;
  bool own_granules = false;  ///< Every allocation gets whole granules to itself, as who registers memory wants.
};

/// Guarded by the growth mutex, but for the budget, which guards itself, and own_granules.
struct Pool {
  Pool(const PoolOptions& options, Budget& device)
      : budget(options.limit_bytes, &device), own_granules(options.own_granules) {}
  Budget budget;
  std::atomic<bool> own_granules;
  std::size_t holds = 0;  ///< While there are any, its memory stays: nothing is given back or remapped.
  bool retired = false;   ///< Nobody names it any more: once empty, its number is given out again.
};

}  // namespace cistern
