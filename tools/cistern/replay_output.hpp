// The results of `cistern replay` as a table and as JSON.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cistern/core/config.hpp"
#include "cistern/core/memory_source.hpp"
#include "cistern/observe/replay.hpp"

namespace cistern::cli {

struct ReplayRun {
  Options options;
  SourceTraits source;
  ReplayResult result;
};

/// All runs of one file.
struct ReplayReport {
  std::string path;
  std::string trace;  ///< The file's name without folders and endings.
  std::size_t operation_count = 0;
  std::vector<ReplayRun> runs;
};

using Row = std::vector<std::string>;
std::string fixed(double value, int digits);
/// In columns as wide as their widest cell; the first `text_columns` to the left, numbers to the right.
void write_rows(const std::vector<Row>& rows, std::size_t text_columns, std::ostream& out);

void write_table(const std::vector<ReplayReport>& reports, std::ostream& out);

/// One object for one report, an array of them for several.
void write_json(const std::vector<ReplayReport>& reports, std::ostream& out);

}  // namespace cistern::cli
