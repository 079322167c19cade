// When frees were, coarsely: for promise I13 it only matters before which fence.
#pragma once

#include <cstdint>

#include "cistern/core/block.hpp"

namespace cistern {

/// Epochs of frees are numbered from 1; what never was freed counts as of epoch 0. A block keeps its epoch as a stamp, the
/// distance from the first epoch still told apart.
class FreeEpochs {
 public:
  void count_free() noexcept { ++count_; }
  /// Of a free that happens now.
  Block::Stamp stamp() const noexcept { return static_cast<Block::Stamp>(now_ - first_); }
  std::uint64_t epoch_of(Block::Stamp stamp) const noexcept { return first_ + stamp; }
  /// Ends the epoch if there were frees in it. Returns the last that is over.
  std::uint64_t end() noexcept {
    if (ended_count_ != count_) {
      ended_count_ = count_;
      ++now_;
    }
    return now_ - 1;
  }

  /// Stamps run out: each has to become later(), and then first_epochs_forgotten().
  bool full() const noexcept { return now_ - first_ == Block::kMaxStamp; }
  /// What was freed in the older half counts as freed at the end of it, which is safe.
  static Block::Stamp later(Block::Stamp stamp) noexcept {
    return static_cast<Block::Stamp>(stamp > kForgotten ? stamp - kForgotten : 0);
  }
  void first_epochs_forgotten() noexcept { first_ += kForgotten; }

 private:
  static constexpr Block::Stamp kForgotten = Block::kMaxStamp / 2;

  std::uint64_t count_ = 0;
  std::uint64_t ended_count_ = 0;  ///< Of frees in epochs that are over.
  std::uint64_t now_ = 1;
  std::uint64_t first_ = 0;  ///< Of stamp 0.
};

}  // namespace cistern
