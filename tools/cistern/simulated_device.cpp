#include "simulated_device.hpp"

#include "cistern/base/units.hpp"
#include "cistern/observe/make_plan.hpp"

namespace cistern::cli {
namespace {

Strategy parse_strategy(const std::string& name) {
  if (const std::optional<Strategy> strategy = strategy_from_name(name)) return *strategy;
  throw UsageError("--strategy: unknown strategy \"" + name + "\", did you mean " +
                   std::string(nearest_name(name, {"growth", "geometric", "preallocate", "plan"})) + "?");
}

}  // namespace

void add_device_options(CLI::App& command, DeviceArguments& arguments) {
  command
      .add_option("--source", arguments.source,
                  "vmm: granules mapped and moved anywhere; contiguous: one range that grows at its end; "
                  "malloc: each range taken and given back whole")
      ->check(CLI::IsMember({"vmm", "contiguous", "malloc"}))
      ->capture_default_str();
  command.add_option("--granule", arguments.granule, "Least unit of memory the source gives")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--capacity", arguments.capacity, "Memory of the simulated device")
      ->type_name("SIZE")
      ->capture_default_str();
}

SimulatedOptions simulated_options(const DeviceArguments& arguments) {
  SimulatedOptions source;
  source.name = arguments.source;
  source.granule_bytes = value_or_usage_error("--granule", parse_size(arguments.granule));
  source.capacity_bytes = value_or_usage_error("--capacity", parse_size(arguments.capacity));
  source.whole_only = source.shared_segments = arguments.source == "malloc";
  const std::size_t granule = source.granule_bytes;
  if (granule < 4 * kKiB || granule > kGiB || (granule & (granule - 1)) != 0) {
    throw UsageError("--granule: " + arguments.granule + " is not a power of two from 4KiB to 1GiB");
  }
  if (source.capacity_bytes < granule || source.capacity_bytes > 65536 * kGiB) {
    throw UsageError("--capacity: " + arguments.capacity + " is not between one granule and 65536GiB");
  }
  if (arguments.source == "contiguous") source.range_step_bytes = round_up(source.capacity_bytes, granule);
  return source;
}

void add_strategies_option(CLI::App& command, std::vector<std::string>& names) {
  command
      .add_option("--strategy", names,
                  "growth, geometric, preallocate or plan, or several with commas (default: growth)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
}

std::vector<Strategy> parse_strategies(const std::vector<std::string>& names, Strategy otherwise) {
  if (names.empty()) return {otherwise};
  std::vector<Strategy> strategies;
  for (const std::string& name : names) strategies.push_back(parse_strategy(name));
  return strategies;
}

std::shared_ptr<const Plan> plan_of(const ReplayProgram& program, const Options& options,
                                    std::size_t granule_bytes) {
  PlanOptions plan;
  plan.unit_bytes = options.least_block_bytes;
  plan.granule_bytes = granule_bytes;
  return std::make_shared<const Plan>(make_plan(program, plan).plan);
}

}  // namespace cistern::cli
