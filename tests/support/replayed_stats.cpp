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
  Stat ReplayedStats::*replayed;
  Stat Stats::*kept;
};

constexpr Figure kFigures[] = {
    {"requested", &ReplayedStats::requested, &Stats::requested},
    {"allocated", &ReplayedStats::allocated, &Stats::allocated},
    {"active", &ReplayedStats::active, &Stats::active},
    {"reserved", &ReplayedStats::reserved, &Stats::reserved},
    {"allocations", &ReplayedStats::allocations, &Stats::allocations},
    {"active_blocks", &ReplayedStats::active_blocks, &Stats::active_blocks},
    {"segments", &ReplayedStats::segments, &Stats::segments},
};

}  // namespace

void ReplayedStats::add(Stat& stat, std::uint64_t amount) noexcept {
  stat.current += amount;
  stat.allocated += amount;
  stat.peak = std::max(stat.peak, stat.current);
}

void ReplayedStats::subtract(Stat& stat, std::uint64_t amount) noexcept {
  stat.current -= amount;
  stat.freed += amount;
}

void ReplayedStats::reset_peak() noexcept {
  for (const Figure& figure : kFigures) (this->*figure.replayed).peak = (this->*figure.replayed).current;
}

void ReplayedStats::reset_accumulated() noexcept {
  for (const Figure& figure : kFigures) {
    (this->*figure.replayed).allocated = 0;
    (this->*figure.replayed).freed = 0;
  }
}

std::optional<std::string> ReplayedStats::difference(const Stats& kept) const {
  for (const Figure& figure : kFigures) {
    const Stat& ours = this->*figure.replayed;
    const Stat& theirs = kept.*figure.kept;
    if (!equal(ours, theirs)) {
      return std::string(figure.name) + ": events say " + describe(ours) + ", the allocator says " +
             describe(theirs);
    }
  }
  return std::nullopt;
}

std::optional<std::string> broken_order(const Stats& stats) {
  const Figure* previous = nullptr;
  for (const Figure& figure : kFigures) {
    const Stat& stat = stats.*figure.kept;
    if (stat.peak < stat.current)
      return std::string("I6: peak below current: ") + figure.name + " " + describe(stat);
    const bool in_bytes = &figure < &kFigures[4];
    if (in_bytes && previous != nullptr && (stats.*previous->kept).current > stat.current) {
      return std::string("I6: ") + previous->name + " " + describe(stats.*previous->kept) + " exceeds " +
             figure.name + " " + describe(stat);
    }
    previous = &figure;
  }
  return std::nullopt;
}

}  // namespace cistern::support
