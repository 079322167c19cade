#include "support/snapshot_check.hpp"

#include <sstream>

namespace cistern::support {
namespace {

struct Sums {
  std::uint64_t committed = 0;
  std::uint64_t active = 0;
  std::uint64_t requested = 0;
  std::uint64_t inactive_split = 0;
};

bool in_use(const BlockInfo& block) {
  return block.state == BlockState::kActive || block.state == BlockState::kPending;
}

std::optional<std::string> broken_range(const RangeInfo& range, Sums& sums) {
  Address expected = range.address;
  std::uint64_t committed = 0;
  for (std::size_t i = 0; i < range.blocks.size(); ++i) {
    const BlockInfo& block = range.blocks[i];
    if (block.address != expected || block.bytes == 0) return "I1: blocks do not tile their range";
    expected += block.bytes;
    if (block.state != BlockState::kHole) committed += block.bytes;
    if (in_use(block)) sums.active += block.bytes;
    if (block.state == BlockState::kActive) sums.requested += block.requested_bytes;
    const BlockInfo* before = i == 0 ? nullptr : &range.blocks[i - 1];
    const BlockInfo* after = i + 1 == range.blocks.size() ? nullptr : &range.blocks[i + 1];
    if (before != nullptr && before->state == block.state && !in_use(block))
      return "I2: mergeable neighbours";
    const bool split = (before != nullptr && in_use(*before)) || (after != nullptr && in_use(*after));
    if (block.state == BlockState::kFree && split) sums.inactive_split += block.bytes;
  }
  if (expected != range.address + range.bytes) return "I1: blocks do not fill their range";
  if (committed != range.committed_bytes) return "I5: blocks do not sum to what the range has committed";
  sums.committed += committed;
  return std::nullopt;
}

std::string differ(const char* what, std::uint64_t blocks, std::uint64_t stats) {
  return std::string(what) + ": blocks say " + std::to_string(blocks) + ", statistics " +
         std::to_string(stats);
}

const char* state_name(BlockState state) {
  switch (state) {
    case BlockState::kFree:
      return "free";
    case BlockState::kActive:
      return "active";
    case BlockState::kPending:
      return "pending";
    case BlockState::kHole:
      return "hole";
    case BlockState::kClaimed:
      return "claimed";
  }
  return "?";
}

}  // namespace

std::optional<std::string> broken_tiling(const std::vector<RangeInfo>& snapshot, const Stats& stats) {
  Sums sums;
  for (const RangeInfo& range : snapshot) {
    if (auto broken = broken_range(range, sums)) return broken;
  }
  if (sums.committed != stats.reserved.current)
    return differ("I5: reserved", sums.committed, stats.reserved.current);
  if (sums.active != stats.active.current) return differ("active", sums.active, stats.active.current);
  if (sums.requested != stats.requested.current)
    return differ("requested", sums.requested, stats.requested.current);
  if (sums.inactive_split != stats.inactive_split.current) {
    return differ("inactive split", sums.inactive_split, stats.inactive_split.current);
  }
  return std::nullopt;
}

std::string to_text(const std::vector<RangeInfo>& snapshot) {
  std::ostringstream text;
  for (const RangeInfo& range : snapshot) {
    text << "range of stream " << range.stream.value << " pool " << range.pool.value
         << (range.small ? " small" : "") << ", " << range.committed_bytes << " of " << range.bytes << '\n';
    for (const BlockInfo& block : range.blocks) {
      text << "  " << block.address - range.address << '+' << block.bytes << ' ' << state_name(block.state)
           << '\n';
    }
  }
  return text.str();
}

}  // namespace cistern::support
