// Follows a heap's requests through its lane of the plan, and finds the way back after a deviation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cistern/core/plan.hpp"

namespace cistern {

/// Requests are told apart by size alone. One that was dropped, changed or put in is seen when the next ones are as the
/// plan has them, a few further on or a few back: the longest run of sizes that agree says where the job is.
/// Threads: guarded by the heap's lock.
class PlanCursor {
 public:
  /// Sizes are compared as the allocator rounds them. May allocate.
  PlanCursor(const PlanLane& lane, std::size_t least_block_bytes);

  /// The place that the plan has for the next request, or nothing if it expects no such request here.
  /// Cost: O(1) on the plan, O(kAhead + kBack) off it, and once in kLostLong requests off it O(requests).
  std::optional<std::uint32_t> next(std::size_t granted_bytes) noexcept;

  /// Places in order of their offsets.
  std::size_t place_count() const noexcept { return offsets_.size(); }
  std::size_t offset(std::size_t place) const noexcept { return offsets_[place]; }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::size_t kAhead = 32;    ///< So many requests may be missing at once.
  static constexpr std::size_t kDropped = 2;   ///< So many are taken for missing at the first sight of what follows.
  static constexpr std::size_t kBack = 32;
  static constexpr std::size_t kSure = 3;      ///< Sizes in a row that agree, to believe anything else.
  static constexpr std::size_t kMemory = 8;
  static constexpr std::size_t kLostLong = 64;  ///< So many requests off the plan, and it is searched from end to end.

  struct Expected {
    std::size_t bytes;
    std::uint32_t place;
  };

  std::size_t after(std::size_t at) const noexcept { return at + 1 < requests_.size() ? at + 1 : repeat_from_; }
  std::size_t before(std::size_t at) const noexcept;
  /// Latest sizes that agree with the plan if the next request is the one at `at`; 0 if that has another size.
  std::size_t agreeing(std::size_t at, std::size_t granted_bytes) const noexcept;
  std::size_t search(std::size_t granted_bytes) noexcept;

  std::vector<Expected> requests_;
  std::vector<std::size_t> offsets_;
  std::size_t repeat_from_;
  std::size_t at_ = 0;  ///< The next expected; as many as there are when none is.
  bool repeated_ = false;
  bool lost_ = false;
  std::size_t lost_for_ = 0;  ///< Requests.
  std::array<std::size_t, kMemory> latest_{};  ///< Granted sizes, the newest first.
};

}  // namespace cistern
