// `cistern replay`: what a trace would cost under another strategy, on another kind of memory.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "simulated_device.hpp"

namespace cistern::cli {

/// As given on the command line.
struct ReplayArguments {
  std::vector<std::string> files;
  std::vector<std::string> strategies;
  DeviceArguments device;
  std::string limit;
  std::string preallocate;
  std::string plan;
  std::string configuration;
  std::string svg;
  int pass_count = 5;
  int round_count = 0;  ///< 0: passes on new allocators.
  std::optional<std::uint64_t> lag;
  bool json = false;
};

void add_replay_command(CLI::App& app, ReplayArguments& arguments);

/// Writes the table or the JSON to `out`. Throws UsageError, FileError or, after the output, DataError when
/// allocations failed.
void run_replay(const ReplayArguments& arguments, std::ostream& out);

}  // namespace cistern::cli
