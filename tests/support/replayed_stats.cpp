#include "support/replayed_stats.hpp"

#include <algorithm>
#include <sstream>

namespace cistern::support {
namespace {

std::string describe(const Stat& stat) {
  std::ostringstream text;
  text << "{current " << stat.current << ", peak " << stat.peak << ", in " << stat.allocated << ", out "
       << stat.freed << "}";
  return text.str();
}

bool equal(const Stat& a, const Stat& b) {
  return a.current == b.current && a.peak == b.peak && a.allocated == b.allocated && a.freed == b.freed;
}

struct Figure {
  const char* name;
  Stat BlockStats::*stat;
};

constexpr Figure kFigures[] = {
    {"requested", &BlockStats::requested},
    {"allocated", &BlockStats::allocated},
    {"active", &BlockStats::active},
    {"reserved", &BlockStats::reserved},
    {"allocations", &BlockStats::allocations},
    {"active_blocks", &BlockStats::active_blocks},
    {"segments", &BlockStats::segments},
};
constexpr const char* kClassNames[kClassCount] = {"small", "large"};

void add(Stat& stat, std::uint64_t amount) noexcept {
  stat.current += amount;
  stat.allocated += amount;
  stat.peak = std::max(stat.peak, stat.current);
}

void subtract(Stat& stat, std::uint64_t amount) noexcept {
  stat.current -= amount;
  stat.freed += amount;
}

bool by_class(const Figure& figure) {
  return figure.stat != &BlockStats::reserved && figure.stat != &BlockStats::segments;
}

std::optional<std::string> difference_in(const Figure& figure, const BlockStats& ours, const BlockStats& theirs) {
  if (equal(ours.*figure.stat, theirs.*figure.stat)) return std::nullopt;
  return std::string(figure.name) + ": events say " + describe(ours.*figure.stat) + ", the allocator says " +
         describe(theirs.*figure.stat);
}

std::optional<std::string> broken_order_in(const BlockStats& stats) {
  const Figure* previous = nullptr;
  for (const Figure& figure : kFigures) {
    const Stat& stat = stats.*figure.stat;
    if (stat.peak < stat.current)
      return std::string("I6: peak below current: ") + figure.name + " " + describe(stat);
    const bool in_bytes = &figure < &kFigures[4];
    if (in_bytes && previous != nullptr && (stats.*previous->stat).current > stat.current) {
      return std::string("I6: ") + previous->name + " " + describe(stats.*previous->stat) + " exceeds " +
             figure.name + " " + describe(stat);
    }
    previous = &figure;
  }
  return std::nullopt;
}

}  // namespace

void ReplayedStats::granted(std::size_t bytes, std::size_t granted_bytes) noexcept {
  for (BlockStats* stats : {static_cast<BlockStats*>(this), &class_of(granted_bytes)}) {
    add(stats->requested, bytes);
    add(stats->allocated, granted_bytes);
    add(stats->active, granted_bytes);
    add(stats->allocations, 1);
    add(stats->active_blocks, 1);
  }
}

void ReplayedStats::freed(std::size_t bytes, std::size_t granted_bytes) noexcept {
  for (BlockStats* stats : {static_cast<BlockStats*>(this), &class_of(granted_bytes)}) {
    subtract(stats->requested, bytes);
    subtract(stats->allocated, granted_bytes);
    subtract(stats->allocations, 1);
  }
}

void ReplayedStats::inactive(std::size_t granted_bytes) noexcept {
  for (BlockStats* stats : {static_cast<BlockStats*>(this), &class_of(granted_bytes)}) {
    subtract(stats->active, granted_bytes);
    subtract(stats->active_blocks, 1);
  }
}

void ReplayedStats::committed(std::size_t bytes, bool first_of_range) noexcept {
  add(reserved, bytes);
  if (first_of_range) add(segments, 1);
}

void ReplayedStats::decommitted(std::size_t bytes, bool last_of_range) noexcept {
  subtract(reserved, bytes);
  if (last_of_range) subtract(segments, 1);
}

void ReplayedStats::reset_peak() noexcept {
  for (BlockStats* stats : {static_cast<BlockStats*>(this), &of_class[kSmallBlocks], &of_class[kLargeBlocks]}) {
    for (const Figure& figure : kFigures) (stats->*figure.stat).peak = (stats->*figure.stat).current;
  }
}

void ReplayedStats::reset_accumulated() noexcept {
  for (BlockStats* stats : {static_cast<BlockStats*>(this), &of_class[kSmallBlocks], &of_class[kLargeBlocks]}) {
    for (const Figure& figure : kFigures) (stats->*figure.stat).allocated = (stats->*figure.stat).freed = 0;
  }
}

std::optional<std::string> ReplayedStats::difference(const Stats& kept) const {
  for (const Figure& figure : kFigures) {
    if (const auto found = difference_in(figure, *this, kept)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> ReplayedStats::class_difference(const Stats& kept) const {
  for (const Figure& figure : kFigures) {
    if (!by_class(figure)) continue;
    for (std::size_t block_class = 0; block_class < kClassCount; ++block_class) {
      if (const auto found = difference_in(figure, of_class[block_class], kept.of_class[block_class]))
        return std::string(kClassNames[block_class]) + " " + *found;
    }
  }
  return std::nullopt;
}

std::optional<std::string> broken_order(const Stats& stats) {
  if (const auto found = broken_order_in(stats)) return found;
  for (std::size_t block_class = 0; block_class < kClassCount; ++block_class) {
    if (const auto found = broken_order_in(stats.of_class[block_class]))
      return std::string(kClassNames[block_class]) + " " + *found;
  }
  for (const Figure& figure : kFigures) {
    const std::uint64_t sum = (stats.of_class[kSmallBlocks].*figure.stat).current +
                              (stats.of_class[kLargeBlocks].*figure.stat).current;
    if (sum != (stats.*figure.stat).current) return std::string("the classes do not sum to the whole: ") + figure.name;
  }
  return std::nullopt;
}

}  // namespace cistern::support
