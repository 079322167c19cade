#include "apps/common/table.hpp"

#include <algorithm>
#include <iomanip>

namespace cistern::apps {

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out << (i == 0 ? "" : "  ") << (i == 0 ? std::left : std::right)
          << std::setw(static_cast<int>(widths[i])) << row[i];
    }
    out << '\n';
  }
}

}  // namespace cistern::apps
