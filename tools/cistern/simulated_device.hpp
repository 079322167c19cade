// The flags that describe a simulated device and an allocator's strategy, as several commands have them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cistern/base/result.hpp"
#include "cistern/core/config.hpp"
#include "cistern/core/plan.hpp"
#include "cistern/observe/replay_program.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "errors.hpp"

namespace cistern::cli {

/// As given on the command line.
struct DeviceArguments {
  std::string source = "vmm";
  std::string granule = "2MiB";
  std::string capacity = "140GiB";
};

void add_device_options(CLI::App& command, DeviceArguments& arguments);

/// Throws UsageError.
SimulatedOptions simulated_options(const DeviceArguments& arguments);

/// --strategy LIST; what follows the list is none of it.
void add_strategies_option(CLI::App& command, std::vector<std::string>& names);

/// `otherwise` alone where no names are given. Throws UsageError that names the nearest.
std::vector<Strategy> parse_strategies(const std::vector<std::string>& names, Strategy otherwise);

/// What strategy plan serves unless a file is given: a plan made of the trace itself.
std::shared_ptr<const Plan> plan_of(const ReplayProgram& program, const Options& options, std::size_t granule_bytes);

template <class Value>
Value value_or_usage_error(const std::string& flag, Result<Value, std::string> parsed) {
  if (!parsed) throw UsageError(flag + ": " + parsed.error());
  return *parsed;
}

}  // namespace cistern::cli
