// The buffers placed so far by time: which of them meet a lifetime, in order of their offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cistern/planning/placement.hpp"

namespace cistern::planning {

/// Time is halved again and again; each part knows the placed buffers that live in it. A short lifetime looks at a
/// small part only.
class TimeIndex {
 public:
  explicit TimeIndex(std::span<const Buffer> buffers);

  /// The lowest offset at which the buffer overlaps none of those placed.
  /// Cost: O(placed buffers that live in the smallest part around its lifetime).
  std::uint64_t lowest_gap(const Buffer& buffer);
  void place(const Buffer& buffer, std::uint64_t offset);
  /// Takes all placed buffers out again.
  void clear() noexcept;

 private:
  struct Placed {
    std::uint64_t offset;
    std::uint64_t end;
    std::uint64_t lower;
    std::uint64_t upper;
  };
  struct Part {
    std::vector<Placed> sorted;   ///< By offset.
    std::vector<Placed> pending;  ///< Not looked at yet: sorted in when the part is.
  };
  static constexpr unsigned kMostLevels = 9;

  std::size_t part_of(std::uint64_t time, unsigned level) const noexcept;
  static void sort_in(Part& part);

  std::vector<std::uint64_t> borders_;  ///< Where each smallest part begins: as many lifetimes begin in each.
  unsigned levels_ = 1;
  std::vector<Part> parts_;  ///< Level l has 2^l of them, from 2^l - 1 on.
};

}  // namespace cistern::planning
