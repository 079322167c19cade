// The peaks of inactive-split, which the hit path only has to watch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cistern/core/stats.hpp"

namespace cistern {

/// The most inactive-split bytes and blocks at once: of each class, and of both together. Kept as the room left below
/// them; below zero there is a new peak.
class SplitPeaks {
 public:
  void bytes_in(std::size_t block_class, std::size_t bytes) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) watch(bytes_[of], room_bytes_[of] -= signed_of(bytes));
  }
  void bytes_out(std::size_t block_class, std::size_t bytes) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) room_bytes_[of] += signed_of(bytes);
  }
  void block_in(std::size_t block_class) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) watch(count_[of], --room_count_[of]);
  }
  void block_out(std::size_t block_class) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) ++room_count_[of];
  }
  /// A block that was whole is split, for a moment perhaps; see_whole_blocks() follows.
  void whole_out(std::size_t block_class, std::size_t bytes) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) {
      room_bytes_[of] -= signed_of(bytes);
      --room_count_[of];
    }
  }
  /// Whole blocks came and went: is there a new peak?
  void see_whole_blocks(std::size_t block_class) noexcept {
    for (const std::size_t of : {block_class, kAllBlocks}) {
      watch(bytes_[of], room_bytes_[of]);
      watch(count_[of], room_count_[of]);
    }
  }

  std::uint64_t bytes(std::size_t of) const noexcept { return bytes_[of]; }
  std::uint64_t count(std::size_t of) const noexcept { return count_[of]; }
  void reset(std::size_t of, std::uint64_t bytes, std::uint64_t count) noexcept {
    bytes_[of] = bytes;
    count_[of] = count;
    room_bytes_[of] = room_count_[of] = 0;
  }

 private:
  static std::int64_t signed_of(std::size_t bytes) noexcept { return static_cast<std::int64_t>(bytes); }
  static void watch(std::uint64_t& peak, std::int64_t& room) noexcept {
    if (room >= 0) [[likely]] return;
    peak += static_cast<std::uint64_t>(-room);
    room = 0;
  }

  std::array<std::int64_t, kCountedCount> room_bytes_{}, room_count_{};
  std::array<std::uint64_t, kCountedCount> bytes_{}, count_{};
};

}  // namespace cistern
