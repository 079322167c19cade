// The rule of Sekiyama et al. (2018): the placed buffers' upper edges are lines over time. Always the lowest line gets
// the first in order of the buffers whose lives lie within it; a line that no buffer fits rises to its lower neighbour.
#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <set>

#include "cistern/planning/heuristics.hpp"

namespace cistern::planning {
namespace {

/// The buffers not yet placed, by where their lives begin; each node of the tree knows what is below it.
class Waiting {
 public:
  Waiting(std::span<const Buffer> buffers, std::span<const std::uint32_t> order)
      : buffers_(buffers), order_(order), by_lower_(buffers.size()) {
    std::iota(by_lower_.begin(), by_lower_.end(), 0u);
    std::sort(by_lower_.begin(), by_lower_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return buffers[a].lower != buffers[b].lower ? buffers[a].lower < buffers[b].lower : a < b;
    });
    while (leaves_ < buffers.size()) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
    std::vector<std::uint32_t> ranks(buffers.size());
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) ranks[order[rank]] = rank;
    for (std::size_t i = 0; i < by_lower_.size(); ++i) {
      nodes_[leaves_ + i] = {ranks[by_lower_[i]], static_cast<std::uint32_t>(i), buffers[by_lower_[i]].upper};
    }
    for (std::size_t node = leaves_ - 1; node > 0; --node) pull(node);
  }

  /// Takes out the first in order of those that begin and end in [from, to).
  std::optional<std::uint32_t> take(std::uint64_t from, std::uint64_t to) {
    const auto begins_before = [&](std::uint32_t index, std::uint64_t time) { return buffers_[index].lower < time; };
    const auto first = std::lower_bound(by_lower_.begin(), by_lower_.end(), from, begins_before) - by_lower_.begin();
    const auto last = std::lower_bound(by_lower_.begin(), by_lower_.end(), to, begins_before) - by_lower_.begin();
    Node best;
    search(1, {0, leaves_}, {static_cast<std::size_t>(first), static_cast<std::size_t>(last)}, to, best);
    if (best.rank == kNone) return std::nullopt;
    std::size_t node = leaves_ + best.leaf;
    nodes_[node] = {};
    while ((node /= 2) > 0) pull(node);
    return order_[best.rank];
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Node {
    std::uint32_t rank = kNone;  ///< The first in order below.
    std::uint32_t leaf = 0;      ///< Where that is.
    std::uint64_t first_end = ~std::uint64_t{0};
  };
  struct Leaves {
    std::size_t begin;
    std::size_t end;
  };

  void pull(std::size_t node) {
    const Node& left = nodes_[2 * node];
    const Node& right = nodes_[2 * node + 1];
    nodes_[node] = left.rank < right.rank ? left : right;
    nodes_[node].first_end = std::min(left.first_end, right.first_end);
  }

  void search(std::size_t node, Leaves here, Leaves wanted, std::uint64_t to, Node& best) const {
    if (here.end <= wanted.begin || wanted.end <= here.begin) return;
    if (nodes_[node].rank >= best.rank || nodes_[node].first_end > to) return;
    if (node >= leaves_) {
      best = nodes_[node];
      return;
    }
    const std::size_t middle = here.begin + (here.end - here.begin) / 2;
    search(2 * node, {here.begin, middle}, wanted, to, best);
    search(2 * node + 1, {middle, here.end}, wanted, to, best);
  }

  std::span<const Buffer> buffers_;
  std::span<const std::uint32_t> order_;
  std::vector<std::uint32_t> by_lower_;
  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

struct Line {
  std::uint64_t height;
  std::uint64_t begin;
  std::uint64_t end;
  friend bool operator<(const Line& a, const Line& b) {
    return a.height != b.height ? a.height < b.height : a.begin < b.begin;
  }
};

/// The lines over time: no gaps, neighbours of different heights.
class Skyline {
 public:
  Skyline(std::uint64_t begin, std::uint64_t end) { insert({0, begin, end}); }

  const Line& lowest() const { return *by_height_.begin(); }

  /// Replaces a part of the lowest line, [begin, end), by one of another height.
  void raise(std::uint64_t begin, std::uint64_t end, std::uint64_t height) {
    const Line line = lowest();
    erase(line);
    if (line.begin < begin) insert({line.height, line.begin, begin});
    if (end < line.end) insert({line.height, end, line.end});
    insert({height, begin, end});
  }

  /// Raises the lowest line to its lower neighbour. Requires that there are several lines.
  void raise_to_neighbour() {
    const Line line = lowest();
    const auto next = by_time_.upper_bound(line);
    const auto here = by_time_.find(line);
    std::uint64_t height = ~std::uint64_t{0};
    if (next != by_time_.end()) height = next->height;
    if (here != by_time_.begin()) height = std::min(height, std::prev(here)->height);
    raise(line.begin, line.end, height);
  }

 private:
  struct ByTime {
    bool operator()(const Line& a, const Line& b) const { return a.begin < b.begin; }
  };

  void erase(const Line& line) {
    by_height_.erase(line);
    by_time_.erase(line);
  }
  void insert(Line line) {
    const auto next = by_time_.find(Line{0, line.end, 0});
    if (next != by_time_.end() && next->height == line.height) {
      line.end = next->end;
      erase(Line(*next));
    }
    const auto after = by_time_.lower_bound(line);
    if (after != by_time_.begin()) {
      if (const Line prev = *std::prev(after); prev.end == line.begin && prev.height == line.height) {
        line.begin = prev.begin;
        erase(prev);
      }
    }
    by_height_.insert(line);
    by_time_.insert(line);
  }

  std::set<Line> by_height_;
  std::set<Line, ByTime> by_time_;
};

}  // namespace

Placement lowest_line(std::span<const Buffer> buffers, std::span<const std::uint32_t> order) {
  Placement placement;
  placement.offsets.resize(buffers.size());
  if (buffers.empty()) return placement;
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  for (const Buffer& buffer : buffers) {
    begin = std::min(begin, buffer.lower);
    end = std::max(end, buffer.upper);
  }
  Waiting waiting(buffers, order);
  Skyline skyline(begin, end);
  for (std::size_t placed = 0; placed < buffers.size();) {
    const Line line = skyline.lowest();
    const std::optional<std::uint32_t> index = waiting.take(line.begin, line.end);
    if (!index) {
      skyline.raise_to_neighbour();
      continue;
    }
    const Buffer& buffer = buffers[*index];
    placement.offsets[*index] = line.height;
    placement.height = std::max(placement.height, line.height + buffer.size);
    skyline.raise(buffer.lower, buffer.upper, line.height + buffer.size);
    ++placed;
  }
  return placement;
}

}  // namespace cistern::planning
