// Offline placement: buffers whose sizes and lifetimes are known beforehand get offsets, so that those which live at
// the same time do not overlap and the highest end is as low as can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cistern::planning {

/// Lives from `lower` until before `upper`.
struct Buffer {
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;  ///< Above lower.
  std::uint64_t size = 0;   ///< At least 1; all sizes alive at once sum to less than 2^63.

  bool meets(const Buffer& other) const noexcept { return lower < other.upper && other.lower < upper; }
};

struct Placement {
  std::vector<std::uint64_t> offsets;  ///< One a buffer, in the order of the buffers.
  std::uint64_t height = 0;            ///< The highest end of a buffer.
};

/// Most bytes alive at once: no placement is lower. Cost: O(n log n).
std::uint64_t lower_bound(std::span<const Buffer> buffers);

/// The highest end under these offsets.
std::uint64_t height_of(std::span<const Buffer> buffers, std::span<const std::uint64_t> offsets);

struct PlaceOptions {
  /// A height that is good enough, as a device's memory is; none: the lower bound.
  std::optional<std::uint64_t> capacity{};
  /// Most time to spend. What the first few passes reach costs seconds at most and is always there.
  double seconds = 60.0;
  /// The exact search is tried on instances of at most so many buffers.
  std::size_t exact_buffers = 2048;
};

/// The best of the heuristics (heuristics.hpp), of the exact search where none of them is good enough, and of the
/// heuristics again with orders shuffled a little. When nothing reaches the capacity in time, the lowest found is
/// returned. Deterministic but for the time.
Placement place(std::span<const Buffer> buffers, const PlaceOptions& options = {});

}  // namespace cistern::planning
