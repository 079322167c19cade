#include "fit_command.hpp"

#include <ostream>

#include <nlohmann/json.hpp>

#include "cistern/base/units.hpp"
#include "cistern/observe/fit.hpp"
#include "cistern/observe/replay.hpp"
#include "replay_output.hpp"

namespace cistern::cli {
namespace {

constexpr std::uint64_t kMostSmaller = 256;
constexpr const char* kFooter =
    R"(A device is a whole number of granules. A trace that completes on one device may fail on a larger one:
placement depends on when memory runs short. So bisection only begins; then 256 of the smaller devices, down
to the lower bound, are tried too (all, if there are no more). "tried below" says how many failed, of how many
there are: where both are equal, no smaller device does. Replays keep stream order, and the device does
nothing until it is waited for.

Exit code: 0 all traces fit; 1 a file cannot be read, or a trace completes on no device up to --capacity; 2 the
command line is wrong.)";

struct Fit {
  std::string path;
  std::string trace;
  Strategy strategy = Strategy::kGrowth;
  std::uint64_t lower_bound_bytes = 0;
  FitResult result;
  double ratio() const {
    return static_cast<double>(result.smallest_bytes) / static_cast<double>(lower_bound_bytes);
  }
};

bool completes(const ReplayProgram& program, const Options& options, SimulatedOptions device) {
  if (device.name == "contiguous") device.range_step_bytes = device.capacity_bytes;
  SimulatedSource source(device);
  RoundSettings once;
  once.round_count = 1;
  return replay_rounds(program, options, source, once).front().failure_count == 0;
}

Fit fit_one(const ReplayProgram& program, const std::string& path, Strategy strategy,
            const SimulatedOptions& device) {
  Options options;
  options.strategy = strategy;
  if (device.name == "contiguous") options.remap_slack = 1.0;
  if (strategy == Strategy::kPlan) options.plan = plan_of(program, options, device.granule_bytes);
  const auto completes_on = [&](std::uint64_t device_bytes) {
    SimulatedOptions smaller = device;
    smaller.capacity_bytes = device_bytes;
    return completes(program, options, smaller);
  };
  return {path, program.name, strategy, program.lower_bound_bytes,
          find_smallest_fit(program.lower_bound_bytes, device.capacity_bytes, device.granule_bytes,
                            kMostSmaller, completes_on)};
}

void write_fit_table(const std::vector<Fit>& fits, const std::string& source, std::ostream& out) {
  constexpr std::size_t kTextColumns = 3;
  std::vector<Row> rows{
      {"trace", "strategy", "source", "lower bound", "smallest device", "ratio", "tried below"}};
  for (const Fit& fit : fits) {
    Row row{fit.trace, strategy_name(fit.strategy), source, format_bytes(fit.lower_bound_bytes)};
    if (fit.result.fits) {
      row.insert(row.end(), {format_bytes(fit.result.smallest_bytes), fixed(fit.ratio(), 4),
                             std::to_string(fit.result.smaller_tried) + " of " +
                                 std::to_string(fit.result.smaller_count)});
    } else {
      row.insert(row.end(), {"none", "-", "-"});
    }
    rows.push_back(row);
  }
  write_rows(rows, kTextColumns, out);
}

void write_fit_json(const std::vector<Fit>& fits, const SimulatedOptions& device, std::ostream& out) {
  using Json = nlohmann::ordered_json;
  Json array = Json::array();
  for (const Fit& fit : fits) {
    Json json{{"trace", fit.path},
              {"strategy", strategy_name(fit.strategy)},
              {"source", device.name},
              {"granule_bytes", device.granule_bytes},
              {"lower_bound_bytes", fit.lower_bound_bytes},
              {"smallest_bytes", nullptr},
              {"ratio", nullptr},
              {"smaller_tried", fit.result.smaller_tried},
              {"smaller_count", fit.result.smaller_count}};
    if (fit.result.fits) {
      json["smallest_bytes"] = fit.result.smallest_bytes;
      json["ratio"] = fit.ratio();
    }
    array.push_back(std::move(json));
  }
  out << array.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

CLI::App* add_fit_command(CLI::App& app, FitArguments& arguments) {
  CLI::App* command =
      app.add_subcommand("fit", "Find the smallest simulated device on which a trace completes");
  command->footer(kFooter);
  command->add_option("FILE", arguments.files, "Traces, as for replay")->required()->type_name("");
  add_strategies_option(*command, arguments.strategies);
  add_device_options(*command, arguments.device);
  command->add_flag("--json", arguments.json, "Write JSON, an array, instead of the table");
  return command;
}

void run_fit(const FitArguments& arguments, std::ostream& out) {
  const SimulatedOptions device = simulated_options(arguments.device);
  const std::vector<Strategy> strategies = parse_strategies(arguments.strategies, Strategy::kGrowth);
  std::vector<ReplayProgram> programs;
  for (const std::string& file : arguments.files) programs.push_back(load_replay_program(file));
  std::vector<Fit> fits;
  for (std::size_t index = 0; index < programs.size(); ++index) {
    for (const Strategy strategy : strategies) {
      fits.push_back(fit_one(programs[index], arguments.files[index], strategy, device));
    }
  }
  arguments.json ? write_fit_json(fits, device, out) : write_fit_table(fits, device.name, out);
  for (const Fit& fit : fits) {
    if (fit.result.fits) continue;
    throw DataError(fit.trace + " under " + strategy_name(fit.strategy) +
                    " completes on no device of up to " + format_bytes(device.capacity_bytes));
  }
}

}  // namespace cistern::cli
