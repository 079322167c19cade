// How small a device may be: a search over sizes for which each answer costs a whole replay.
#pragma once

#include <cstdint>
#include <functional>

namespace cistern {

struct FitResult {
  bool fits = false;                 ///< Whether any size up to the largest did.
  std::uint64_t smallest_bytes = 0;  ///< The smallest size that was tried and did; 0 without one.
  std::uint64_t smaller_tried = 0;  ///< Sizes below it, down to the lower bound, that were tried and did not.
  std::uint64_t smaller_count = 0;  ///< All sizes below it, down to the lower bound.
};

/// Asks `completes` about multiples of `step_bytes` from `lower_bound_bytes` to `largest_bytes`.
/// Whether a trace fits is not monotone: on a smaller device an allocator gives memory back at another
/// moment, places otherwise, and may complete where it failed on a larger one. So bisection only begins: then
/// up to `most_smaller` sizes below what it found, evenly spread (all, if there are no more), are tried from
/// below, and where one completes the search goes on beneath it. The result says how many of the smaller
/// sizes were tried: it is the least device for certain only where that is all of them. Requires step_bytes >
/// 0 and most_smaller > 0.
FitResult find_smallest_fit(std::uint64_t lower_bound_bytes, std::uint64_t largest_bytes,
                            std::uint64_t step_bytes, std::uint64_t most_smaller,
                            const std::function<bool(std::uint64_t)>& completes);

}  // namespace cistern
