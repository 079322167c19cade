// Depth first over canonical placements. Every placement can be pushed down until each buffer rests on the
// floor or on another, and read from the lowest offset up; so buffers are placed in that order only, each as
// low as those placed before allow ("bottom"), ties by a rank. The search stops descending where
//  - a clique (buffers alive at one moment) has not room for what is left above the lowest bottom it can
//  still get;
//  - the next offset is above the whole of a buffer that could have been put down first without touching
//  anything.
// Whenever what is left falls apart in time, the parts are searched one by one, each ranked anew by what is
// left in it. Idea of the canonical order, the clique bound and the decomposition: Moffitt, "MiniMalloc",
// ASPLOS 2023; the bound here is stronger: a buffer that was passed over must come to rest on one that is
// still to be placed.
#include "cistern/planning/exact_search.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "cistern/planning/placement.hpp"

namespace cistern::planning {
namespace {

using Bytes = std::int64_t;

/// Which of two buffers with the same bottom goes first: the larger in the first of these that differs. Each
/// wins on some instance; none on all.
enum class Order : std::uint8_t { kTotalWidthArea, kTotalAreaWidth, kWidthAreaTotal };
constexpr std::array kOrders{Order::kTotalAreaWidth, Order::kTotalWidthArea, Order::kWidthAreaTotal};

struct Item {
  Bytes size = 0;
  double width = 0;               // lifetime
  int first = 0;                  // clique
  int last = 0;                   // clique, inclusive
  std::vector<int> neighbours{};  // items that share a clique
};

struct Instance {
  std::vector<Item> items;
  std::vector<std::vector<int>> cliques;  // the maximal ones, in the order of time
};

/// A maximal clique is what lives at a moment when the last thing that happened is a birth and the next is a
/// death.
Instance instance_of(std::span<const Buffer> buffers) {
  struct Change {
    std::uint64_t time;
    bool birth;  // deaths sort first: lifetimes are half open
    int item;
  };
  Instance result;
  std::vector<Change> changes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    result.items.push_back(
        {static_cast<Bytes>(buffer.size), static_cast<double>(buffer.upper - buffer.lower), 0, 0, {}});
    changes.push_back({buffer.lower, true, static_cast<int>(i)});
    changes.push_back({buffer.upper, false, static_cast<int>(i)});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.time, a.birth, a.item) < std::tie(b.time, b.birth, b.item);
  });
  int clique = 0;
  bool born = false;
  for (const Change& change : changes) {
    Item& item = result.items[static_cast<std::size_t>(change.item)];
    if (change.birth) {
      item.first = clique;
    } else {
      clique += born;
      item.last = clique - 1;
    }
    born = change.birth;
  }
  result.cliques.resize(static_cast<std::size_t>(clique));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Item& item = result.items[i];
    for (int c = item.first; c <= item.last; ++c) {
      result.cliques[static_cast<std::size_t>(c)].push_back(static_cast<int>(i));
    }
    for (std::size_t j = 0; j < buffers.size(); ++j) {
      if (i != j && buffers[i].meets(buffers[j])) item.neighbours.push_back(static_cast<int>(j));
    }
  }
  return result;
}

class Search {
 public:
  Search(const Instance& instance, Bytes capacity, const Effort& effort)
      : items_(instance.items),
        cliques_(instance.cliques),
        capacity_(capacity),
        effort_(effort),
        bottoms_(items_.size(), 0),
        placed_(items_.size(), false),
        ranks_(items_.size(), 0),
        room_below_(items_.size(), 0),
        room_stamps_(items_.size(), 0),
        left_(cliques_.size(), 0),
        witnesses_(cliques_.size(), 0) {
    for (std::size_t c = 0; c < cliques_.size(); ++c) {
      witnesses_[c] = cliques_[c].front();
      for (const int item : cliques_[c]) left_[c] += items_[at(item)].size;
    }
  }

  /// Each part in turn, under each order with few steps, then with twice as many.
  SearchEnd run() {
    std::vector<int> all(items_.size());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(),
                     [this](int a, int b) { return items_[at(a)].first < items_[at(b)].first; });
    for (const auto& part : parts_of(all)) {
      const SearchEnd end = run_part(part);
      if (end != SearchEnd::kFound) return end;
    }
    return SearchEnd::kFound;
  }

  std::vector<std::uint64_t> offsets() const { return {bottoms_.begin(), bottoms_.end()}; }

 private:
  using Items = std::vector<int>;  // in the order of their first cliques
  struct Change {
    int item;
    Bytes bottom;  // before; or negative: the item was placed
  };
  /// All that comes later lies at or above the offset, at the offset only with a greater rank.
  struct Floor {
    Bytes offset = 0;
    int rank = -1;
  };
  static constexpr Bytes kPlaced = -1;
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  SearchEnd run_part(const Items& part) {
    for (std::uint64_t steps = 1024;; steps *= 2) {
      for (const Order order : kOrders) {
        order_ = order;
        steps_left_ = steps;
        rank(part);
        const std::size_t mark = trail_.size();
        if (place_rest(part, {})) return SearchEnd::kFound;
        undo(mark);
        if (steps_left_ > 0) return SearchEnd::kImpossible;
        if (effort_.spent()) return SearchEnd::kGaveUp;
      }
    }
  }

  std::vector<Items> parts_of(const Items& items) const {
    std::vector<Items> parts;
    int end = -1;
    for (const int item : items) {
      if (items_[at(item)].first > end) parts.emplace_back();
      parts.back().push_back(item);
      end = std::max(end, items_[at(item)].last);
    }
    return parts;
  }

  /// Small parts first: they fail sooner.
  bool place_parts(const Items& items, Floor floor) {
    std::vector<Items> parts = parts_of(items);
    if (parts.size() == 1) return place_rest(parts.front(), floor);
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Items& a, const Items& b) { return a.size() < b.size(); });
    for (const Items& part : parts) {
      std::vector<int> ranks_before;
      for (const int item : part) ranks_before.push_back(ranks_[at(item)]);
      rank(part);
      // Among equal offsets the new ranks know nothing of the old: any of the part may come.
      if (place_rest(part, {floor.offset, -1})) continue;
      for (std::size_t i = 0; i < part.size(); ++i) ranks_[at(part[i])] = ranks_before[i];
      return false;
    }
    return true;
  }

  /// Places one of `items`, which hang together in time, and then the others. Leaves the trail longer when it
  /// succeeds.
  bool place_rest(const Items& items, Floor floor) {
    if (items.empty()) return true;
    const std::size_t mark = trail_.size();
    int first_clique = std::numeric_limits<int>::max();
    int last_clique = 0;
    for (const int item : items) {
      first_clique = std::min(first_clique, items_[at(item)].first);
      last_clique = std::max(last_clique, items_[at(item)].last);
    }
    Items rest;
    for (const int item : candidates(items, floor)) {
      if (steps_left_ == 0 || ((--steps_left_ & 1023U) == 0 && effort_.spent())) {
        steps_left_ = 0;
        return false;
      }
      const Floor next{bottoms_[at(item)], ranks_[at(item)]};
      if (put(item) && fits(first_clique, last_clique, next)) {
        rest.clear();
        std::copy_if(items.begin(), items.end(), std::back_inserter(rest),
                     [item](int other) { return other != item; });
        if (place_parts(rest, next)) return true;
      }
      undo(mark);
      if (steps_left_ == 0) return false;
    }
    return false;
  }

  /// What may come next, lowest first. An offset at or above the top that some item could have at once is no
  /// choice: that item would fit below all that is still to come, and another branch has it there.
  Items candidates(const Items& items, Floor floor) const {
    Bytes limit = std::numeric_limits<Bytes>::max();
    for (const int item : items) limit = std::min(limit, bottoms_[at(item)] + items_[at(item)].size);
    Items result;
    for (const int item : items) {
      if (!passed(item, floor) && bottoms_[at(item)] < limit) result.push_back(item);
    }
    std::sort(result.begin(), result.end(), [this](int a, int b) {
      return std::pair(bottoms_[at(a)], ranks_[at(a)]) < std::pair(bottoms_[at(b)], ranks_[at(b)]);
    });
    return result;
  }

  bool passed(int item, Floor floor) const {
    return std::pair(bottoms_[at(item)], ranks_[at(item)]) <= std::pair(floor.offset, floor.rank);
  }

  /// False if something no longer fits above it.
  bool put(int item) {
    const Item& it = items_[at(item)];
    trail_.push_back({item, kPlaced});
    placed_[at(item)] = true;
    for (int c = it.first; c <= it.last; ++c) left_[at(c)] -= it.size;
    const Bytes top = bottoms_[at(item)] + it.size;
    for (const int other : it.neighbours) {
      if (placed_[at(other)] || bottoms_[at(other)] >= top) continue;
      trail_.push_back({other, bottoms_[at(other)]});
      bottoms_[at(other)] = top;
      if (top + items_[at(other)].size > capacity_) return false;
    }
    return true;
  }

  void undo(std::size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) {
      const auto [item, bottom] = trail_.back();
      if (bottom != kPlaced) {
        bottoms_[at(item)] = bottom;
        continue;
      }
      const Item& it = items_[at(item)];
      placed_[at(item)] = false;
      for (int c = it.first; c <= it.last; ++c) left_[at(c)] += it.size;
    }
  }

  /// Whether in each clique the lowest of what is left can start low enough for all of it. What proved that
  /// last time, the witness, mostly does again.
  bool fits(int first_clique, int last_clique, Floor floor) {
    ++stamp_;
    for (int c = first_clique; c <= last_clique; ++c) {
      if (left_[at(c)] == 0) continue;
      const Bytes highest = capacity_ - left_[at(c)];
      const auto low_enough = [&](int item) { return !placed_[at(item)] && lowest(item, floor) <= highest; };
      if (low_enough(witnesses_[at(c)])) continue;
      const auto found = std::find_if(cliques_[at(c)].begin(), cliques_[at(c)].end(), low_enough);
      if (found == cliques_[at(c)].end()) return false;
      witnesses_[at(c)] = *found;
    }
    return true;
  }

  /// The lowest offset that `item` can still get: its bottom, or where it was passed over, the top of the
  /// lowest neighbour that it can come to rest on.
  Bytes lowest(int item, Floor floor) {
    if (!passed(item, floor)) return bottoms_[at(item)];
    if (room_stamps_[at(item)] == stamp_) return room_below_[at(item)];
    room_stamps_[at(item)] = stamp_;
    room_below_[at(item)] = floor.offset + 1;  // for neighbours that were passed over too
    Bytes least = std::numeric_limits<Bytes>::max() / 2;
    for (const int other : items_[at(item)].neighbours) {
      if (placed_[at(other)]) continue;
      Bytes start = bottoms_[at(other)];
      if (passed(other, floor))
        start = room_stamps_[at(other)] == stamp_ ? room_below_[at(other)] : floor.offset + 1;
      least = std::min(least, start + items_[at(other)].size);
    }
    return room_below_[at(item)] = least;
  }

  void rank(const Items& part) {
    std::vector<std::pair<std::array<double, 3>, int>> keyed;
    for (const int item : part) {
      const Item& it = items_[at(item)];
      const double total =
          static_cast<double>(*std::max_element(left_.begin() + it.first, left_.begin() + it.last + 1));
      const double area = it.width * static_cast<double>(it.size);
      switch (order_) {
        case Order::kTotalWidthArea:
          keyed.push_back({{-total, -it.width, -area}, item});
          break;
        case Order::kTotalAreaWidth:
          keyed.push_back({{-total, -area, -it.width}, item});
          break;
        case Order::kWidthAreaTotal:
          keyed.push_back({{-it.width, -area, -total}, item});
          break;
      }
    }
    std::sort(keyed.begin(), keyed.end());
    for (std::size_t i = 0; i < keyed.size(); ++i) ranks_[at(keyed[i].second)] = static_cast<int>(i);
  }

  const std::vector<Item>& items_;
  const std::vector<std::vector<int>>& cliques_;
  const Bytes capacity_;
  const Effort& effort_;
  Order order_ = kOrders.front();
  std::uint64_t steps_left_ = 0;

  std::vector<Bytes> bottoms_;  // an item: its offset if placed, else the top of what is placed below it
  std::vector<char> placed_;
  std::vector<int> ranks_;
  std::vector<Bytes> room_below_;  // an item: lowest(), valid if stamped now
  std::vector<std::uint64_t> room_stamps_;
  std::uint64_t stamp_ = 0;
  std::vector<Bytes> left_;     // a clique: bytes not placed yet
  std::vector<int> witnesses_;  // a clique
  std::vector<Change> trail_;
};

}  // namespace

SearchResult search_exactly(std::span<const Buffer> buffers, std::uint64_t capacity, const Effort& effort) {
  if (lower_bound(buffers) > capacity) return {SearchEnd::kImpossible, {}};
  if (buffers.empty()) return {SearchEnd::kFound, {}};
  const Instance instance = instance_of(buffers);
  constexpr std::uint64_t kMost = std::numeric_limits<Bytes>::max() / 4;
  Search search(instance, static_cast<Bytes>(std::min(capacity, kMost)), effort);
  const SearchEnd end = search.run();
  return {end, end == SearchEnd::kFound ? search.offsets() : std::vector<std::uint64_t>{}};
}

}  // namespace cistern::planning
