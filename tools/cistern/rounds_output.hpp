// The results of `cistern replay --rounds` as a table and as JSON.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cistern/core/config.hpp"
#include "cistern/core/memory_source.hpp"
#include "cistern/observe/replay.hpp"

namespace cistern::cli {

/// All rounds of one file under one strategy.
struct RoundsReport {
  std::string path;
  std::string trace;
  std::size_t operation_count = 0;
  std::uint64_t lower_bound_bytes = 0;
  Strategy strategy = Strategy::kGrowth;
  SourceTraits source;
  std::vector<ReplayRound> rounds;
};

void write_rounds_table(const std::vector<RoundsReport>& reports, std::ostream& out);

/// One object for one report, an array of them for several.
void write_rounds_json(const std::vector<RoundsReport>& reports, std::ostream& out);

}  // namespace cistern::cli
