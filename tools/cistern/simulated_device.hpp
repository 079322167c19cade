// The flags that describe a simulated device and an allocator's strategy, as several commands have them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

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

/// Throws UsageError that names the nearest.
Strategy parse_strategy(const std::string& name);

/// What strategy plan serves unless a file is given: a plan made of the trace itself.
std::shared_ptr<const Plan> plan_of(const ReplayProgram& program, const Options& options, std::size_t granule_bytes);

template <class Value>
Value value_or_usage_error(const std::string& flag, Result<Value, std::string> parsed) {
  if (!parsed) throw UsageError(flag + ": " + parsed.error());
  return *parsed;
}

}  // namespace cistern::cli
