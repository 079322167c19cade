// Values on half-open address intervals, for checkers: plain, obviously right, not fast.
#pragma once

#include <iterator>
#include <map>
#include <utility>

#include "cistern/base/ids.hpp"

namespace cistern::support {

template <class Value>
class IntervalMap {
 public:
  /// Gives every byte of [begin, end) the value, whatever it had.
  void assign(Address begin, Address end, Value value) {
    erase(begin, end);
    pieces_.emplace(begin, Piece{end, std::move(value)});
  }

  void erase(Address begin, Address end) {
    split_at(begin);
    split_at(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
  }

  /// Whether every byte of [begin, end) has a value.
  bool covers(Address begin, Address end) const {
    Address reached = begin;
    for (auto piece = first_touching(begin); piece != pieces_.end() && reached < end; ++piece) {
      if (piece->first > reached) return false;
      reached = piece->second.end;
    }
    return reached >= end;
  }

  /// Whether some byte of [begin, end) has a value.
  bool intersects(Address begin, Address end) const {
    const auto piece = first_touching(begin);
    return piece != pieces_.end() && piece->first < end;
  }

  /// visit(value) for every piece that touches [begin, end).
  template <class Visit>
  void for_each(Address begin, Address end, Visit visit) const {
    for (auto piece = first_touching(begin); piece != pieces_.end() && piece->first < end; ++piece)
      visit(piece->second.value);
  }

  bool empty() const noexcept { return pieces_.empty(); }

 private:
  struct Piece {
    Address end;
    Value value;
  };
  using Pieces = std::map<Address, Piece>;

  typename Pieces::const_iterator first_touching(Address begin) const {
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
    return piece;
  }

  void split_at(Address at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    pieces_.emplace(at, piece->second);
    piece->second.end = at;
  }

  Pieces pieces_;
};

}  // namespace cistern::support
