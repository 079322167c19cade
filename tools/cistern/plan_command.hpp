// `cistern plan`: where a recorded run's blocks, or a list of buffers, would best lie.
#pragma once

#include <iosfwd>
#include <string>

#include <CLI/CLI.hpp>

namespace cistern::cli {

/// As given on the command line.
struct PlanArguments {
  std::string file;
  std::string output;
  std::string granule = "2MiB";
  std::string capacity;
  double seconds = 20.0;
  bool json = false;
};

CLI::App* add_plan_command(CLI::App& app, PlanArguments& arguments);

/// Writes the file, and a line or the JSON to `out`. Throws UsageError, FileError or, when the capacity is not met and
/// nothing was written, DataError.
void run_plan(const PlanArguments& arguments, std::ostream& out);

}  // namespace cistern::cli
