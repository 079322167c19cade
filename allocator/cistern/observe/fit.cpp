#include "cistern/observe/fit.hpp"

#include <algorithm>
#include <map>

#include "cistern/base/check.hpp"

namespace cistern {
namespace {

/// Sizes are counted in steps. Each is asked about once.
class FitSearch {
 public:
  FitSearch(std::uint64_t least, std::uint64_t step_bytes,
            const std::function<bool(std::uint64_t)>& completes)
      : least_(least), step_bytes_(step_bytes), completes_(completes) {}

  bool completes(std::uint64_t steps) {
    const auto found = answers_.find(steps);
    if (found != answers_.end()) return found->second;
    return answers_[steps] = completes_(steps * step_bytes_);
  }

  /// Requires that `most` completes. One that does and whose predecessor does not, if the predecessor counts.
  std::uint64_t bisect(std::uint64_t below, std::uint64_t most) {
    while (below < most) {
      const std::uint64_t middle = below + (most - below) / 2;
      if (completes(middle)) {
        most = middle;
      } else {
        below = middle + 1;
      }
    }
    return most;
  }

  /// The least of some sizes below `found` that completes, or `found`.
  std::uint64_t look_below(std::uint64_t found, std::uint64_t most) {
    const std::uint64_t stride = std::max<std::uint64_t>(1, (found - least_ + most - 1) / most);
    for (std::uint64_t steps = least_; steps < found; steps += stride) {
      if (completes(steps)) return bisect(steps - std::min(steps - least_, stride - 1), steps);
    }
    return found;
  }

  std::uint64_t tried_below(std::uint64_t steps) const {
    return static_cast<std::uint64_t>(std::distance(answers_.begin(), answers_.lower_bound(steps)));
  }

 private:
  const std::uint64_t least_;
  const std::uint64_t step_bytes_;
  const std::function<bool(std::uint64_t)>& completes_;
  std::map<std::uint64_t, bool> answers_;
};

}  // namespace

FitResult find_smallest_fit(std::uint64_t lower_bound_bytes, std::uint64_t largest_bytes,
                            std::uint64_t step_bytes, std::uint64_t most_smaller,
                            const std::function<bool(std::uint64_t)>& completes) {
  CISTERN_CHECK_LE(std::uint64_t{1}, step_bytes);
  CISTERN_CHECK_LE(std::uint64_t{1}, most_smaller);
  const std::uint64_t least = std::max<std::uint64_t>(1, (lower_bound_bytes + step_bytes - 1) / step_bytes);
  const std::uint64_t largest = largest_bytes / step_bytes;
  FitSearch search(least, step_bytes, completes);
  if (largest < least || !search.completes(largest)) return {};
  std::uint64_t found = search.bisect(least, largest);
  for (std::uint64_t before = found + 1; found < before;) {
    before = found;
    found = search.look_below(found, most_smaller);
  }
  return {true, found * step_bytes, search.tried_below(found), found - least};
}

}  // namespace cistern
