#include "cistern/planning/placement.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "cistern/planning/effort.hpp"
#include "cistern/planning/exact_search.hpp"
#include "cistern/planning/heuristics.hpp"

namespace cistern::planning {
namespace {

constexpr std::uint64_t kFewShuffles = 16;
constexpr std::uint64_t kMostShuffles = 1000;
constexpr std::array<double, 5> kNoises{0.02, 0.05, 0.1, 0.2, 0.4};

}  // namespace

std::uint64_t lower_bound(std::span<const Buffer> buffers) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> changes;  // when, by how much; what ends goes before what begins
  changes.reserve(2 * buffers.size());
  for (const Buffer& buffer : buffers) {
    changes.emplace_back(buffer.lower, buffer.size);
    changes.emplace_back(buffer.upper, std::uint64_t{0} - buffer.size);
  }
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::uint64_t alive = 0;
  std::uint64_t most = 0;
  for (const auto& [time, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return most;
}

std::uint64_t height_of(std::span<const Buffer> buffers, std::span<const std::uint64_t> offsets) {
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) height = std::max(height, offsets[i] + buffers[i].size);
  return height;
}

namespace {

/// The best so far, and whether to go on.
class Best {
 public:
  Best(std::uint64_t enough, const Effort& effort) : enough_(enough), effort_(effort) {}

  void offer(Placement placement) {
    if (best_.height == 0 || placement.height < best_.height) best_ = std::move(placement);
  }
  bool good_enough() const noexcept { return best_.height != 0 && best_.height <= enough_; }
  bool done() const noexcept { return good_enough() || effort_.spent(); }
  Placement take() && { return std::move(best_); }

 private:
  const std::uint64_t enough_;
  const Effort effort_;
  Placement best_;
};

/// The passes without chance: which of them is the best differs from one program to the next, but one of them mostly
/// is within a hundredth of the lower bound.
void try_plain_orders(std::span<const Buffer> buffers, Best& best) {
  best.offer(first_fit(buffers, order_by(buffers, {.life_power = 0.0, .size_power = 1.0})));
  for (const double size_power : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    if (best.good_enough()) return;
    best.offer(lowest_line(buffers, order_by(buffers, {.size_power = size_power})));
  }
}

void try_shuffled_orders(std::span<const Buffer> buffers, std::uint64_t first, std::uint64_t last, Best& best) {
  for (std::uint64_t seed = first; seed < last && !best.done(); ++seed) {
    Preference preference;
    preference.size_power = 0.25 * static_cast<double>(seed % 4);
    preference.noise = kNoises[seed / 4 % kNoises.size()];
    preference.seed = seed;
    best.offer(lowest_line(buffers, order_by(buffers, preference)));
  }
}

}  // namespace

Placement place(std::span<const Buffer> buffers, const PlaceOptions& options) {
  const std::uint64_t least = lower_bound(buffers);
  const std::uint64_t enough = std::max(options.capacity.value_or(least), least);
  const auto begin = Effort::Clock::now();
  Best best(enough, Effort::for_seconds(options.seconds));
  try_plain_orders(buffers, best);
  try_shuffled_orders(buffers, 0, kFewShuffles, best);
  if (!best.done() && buffers.size() <= options.exact_buffers) {
    // Half of the time that is left.
    const auto spent = std::chrono::duration<double>(Effort::Clock::now() - begin).count();
    SearchResult found = search_exactly(buffers, enough, Effort::for_seconds((options.seconds - spent) / 2));
    if (found.end == SearchEnd::kFound) {
      const std::uint64_t height = height_of(buffers, found.offsets);
      best.offer({std::move(found.offsets), height});
    }
  }
  try_shuffled_orders(buffers, kFewShuffles, kMostShuffles, best);
  return std::move(best).take();
}

}  // namespace cistern::planning
