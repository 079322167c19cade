// `cistern run`: starts an unmodified program with cistern under its torch tensors.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cistern::cli {

/// As given on the command line.
struct RunArguments {
  std::vector<std::string> devices{"cpu"};
  std::string strategy;
  std::string limit;
  std::string preallocate;
  std::string trim;
  std::string record;
  std::string plan;
  bool report = false;
  std::vector<std::string> command;  ///< What stands behind the first "--", untouched.
};

/// Takes "-- COMMAND..." off the end of a `cistern run` command line, so that nothing of it is taken for a flag of
/// ours. Returns the arguments that are left.
std::vector<char*> take_command(int argc, char** argv, RunArguments& arguments);

CLI::App* add_run_command(CLI::App& app, RunArguments& arguments);

/// Becomes the command: its exit code, its signals and its output are its own. Returns only where it cannot be started,
/// after one line, with 127 if it does not exist and 126 otherwise. Throws UsageError before that.
int run_command(const RunArguments& arguments);

}  // namespace cistern::cli
