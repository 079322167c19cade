#include "cistern/planning/time_index.hpp"

#include <algorithm>

namespace cistern::planning {

TimeIndex::TimeIndex(std::span<const Buffer> buffers) {
  constexpr std::size_t kFewBuffers = 64;  // are looked through as fast as divided
  while (levels_ < kMostLevels && buffers.size() >> levels_ > kFewBuffers) ++levels_;
  const std::size_t smallest = std::size_t{1} << (levels_ - 1);
  std::vector<std::uint64_t> begins;
  begins.reserve(buffers.size());
  for (const Buffer& buffer : buffers) begins.push_back(buffer.lower);
  std::sort(begins.begin(), begins.end());
  borders_.assign(smallest, 0);
  for (std::size_t part = 1; part < smallest; ++part) borders_[part] = begins[begins.size() * part / smallest];
  parts_.resize(2 * smallest - 1);
}

std::size_t TimeIndex::part_of(std::uint64_t time, unsigned level) const noexcept {
  const auto after = std::upper_bound(borders_.begin() + 1, borders_.end(), time);
  return static_cast<std::size_t>(after - borders_.begin() - 1) >> (levels_ - 1 - level);
}

void TimeIndex::sort_in(Part& part) {
  if (part.pending.empty()) return;
  const auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
  std::sort(part.pending.begin(), part.pending.end(), by_offset);
  const auto middle = static_cast<std::ptrdiff_t>(part.sorted.size());
  part.sorted.insert(part.sorted.end(), part.pending.begin(), part.pending.end());
  std::inplace_merge(part.sorted.begin(), part.sorted.begin() + middle, part.sorted.end(), by_offset);
  part.pending.clear();
}

std::uint64_t TimeIndex::lowest_gap(const Buffer& buffer) {
  unsigned level = levels_ - 1;
  while (part_of(buffer.lower, level) != part_of(buffer.upper - 1, level)) --level;
  Part& part = parts_[(std::size_t{1} << level) - 1 + part_of(buffer.lower, level)];
  sort_in(part);
  std::uint64_t gap = 0;
  for (const Placed& placed : part.sorted) {
    if (placed.lower >= buffer.upper || buffer.lower >= placed.upper) continue;
    if (placed.offset >= gap && placed.offset - gap >= buffer.size) break;
    gap = std::max(gap, placed.end);
  }
  return gap;
}

void TimeIndex::place(const Buffer& buffer, std::uint64_t offset) {
  for (unsigned level = 0; level < levels_; ++level) {
    const std::size_t first = (std::size_t{1} << level) - 1;
    const std::size_t last = part_of(buffer.upper - 1, level);
    for (std::size_t part = part_of(buffer.lower, level); part <= last; ++part) {
      parts_[first + part].pending.push_back({offset, offset + buffer.size, buffer.lower, buffer.upper});
    }
  }
}

void TimeIndex::clear() noexcept {
  for (Part& part : parts_) {
    part.sorted.clear();
    part.pending.clear();
  }
}

}  // namespace cistern::planning
