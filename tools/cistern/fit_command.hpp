// `cistern fit`: the smallest simulated device on which a trace completes.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "simulated_device.hpp"

namespace cistern::cli {

/// As given on the command line.
struct FitArguments {
  std::vector<std::string> files;
  std::vector<std::string> strategies;
  DeviceArguments device;  ///< Its capacity is the largest device that is tried.
  bool json = false;
};

CLI::App* add_fit_command(CLI::App& app, FitArguments& arguments);

/// Writes the table or the JSON to `out`. Throws UsageError, FileError or, after the output, DataError where
/// a trace completes on no device.
void run_fit(const FitArguments& arguments, std::ostream& out);

}  // namespace cistern::cli
