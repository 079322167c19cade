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
  std::string trace;  ///< The file's name without folders and endings.
  std::string path;
  std::size_t operation_count = 0;
  Options options;
  SourceTraits source;
  ReplayResult result;
};

void write_table(const std::vector<ReplayRun>& runs, std::ostream& out);

/// One object for one file, an array of them for several; runs of one file stand together.
void write_json(const std::vector<ReplayRun>& runs, std::ostream& out);

}  // namespace cistern::cli
