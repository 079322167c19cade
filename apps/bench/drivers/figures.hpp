// What drivers tell.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

namespace cistern::bench {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

/// What an allocator took from its device so far.
struct Usage {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t source_calls =
      0;  ///< Calls that take memory or address space from the device, or give it back.
  std::uint64_t mapped_bytes = 0;  ///< By mapping granules; memory taken otherwise does not count.
};

inline double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace cistern::bench
