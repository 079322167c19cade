// A table for people: first column left, the others right, widths by content.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace cistern::apps {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  /// Requires as many cells as the header has.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cistern::apps
