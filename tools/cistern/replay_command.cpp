#include "replay_command.hpp"

#include <ostream>
#include <utility>

#include "cistern/base/units.hpp"
#include "cistern/core/config.hpp"
#include "cistern/observe/files.hpp"
#include "cistern/observe/plan_file.hpp"
#include "cistern/observe/replay.hpp"
#include "cistern/observe/svg.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "errors.hpp"
#include "replay_output.hpp"
#include "rounds_output.hpp"

namespace cistern::cli {
namespace {

constexpr const char* kFooter =
    R"(Files: event traces (written by record:FILE or cistern-train --record) or CSV with the header
action,id,bytes,stream; both plain or gzip, told apart by their content.

Columns:
  lower bound    peak of the bytes live at once: no allocator can reserve less
  peak reserved  most memory taken from the source at once; ratio: that / lower bound
  remapped       memory moved from idle places to where it was needed
  ns/op          time of an allocation or a free, source calls included, on a new allocator
  warm           the same for the trace run again on the allocator that has grown
Streams are kept, but nothing runs on them: what one frees, all may reuse.

With --rounds N each trace is replayed N times on one allocator, and streams have their order: memory that a stream
may still use is neither given to another nor remapped before the device got there. A line is one round:
  granules mapped, driver ms   what was taken from the source, and that at 80 us a granule
  waits          times the allocator waited for the device
The device is behind the host by --lag operations, or until somebody waits for it.

--json writes {"trace", "operations", "runs": [{"strategy", "source", "lower_bound_bytes",
"peak_reserved_bytes", "ratio", "source_calls", "ns_per_operation", ...}]}, for several files an array of
such objects, and nothing else to stdout.

Exit code: 0 all allocations served; 1 a file cannot be read or written, or an allocation failed (the
results are written all the same); 2 the command line is wrong. CISTERN_CONF is not read.)";

/// The command line, understood.
struct ReplaySettings {
  std::vector<Strategy> strategies;
  Options options;
  SimulatedOptions source;
  bool preallocate_given = false;  ///< Otherwise its size depends on the trace.
};

Options allocator_options(const ReplayArguments& arguments) {
  Result<Options, ConfigError> parsed = parse_config(arguments.configuration);
  if (!parsed) throw UsageError("--conf: " + parsed.error().message);
  Options options = *parsed;
  if (!options.record.empty()) throw UsageError("--conf: record does not apply to a replay");
  if (!arguments.plan.empty()) options.plan_file = arguments.plan;
  if (!arguments.limit.empty()) options.limit = value_or_usage_error("--limit", parse_limit(arguments.limit));
  if (!arguments.preallocate.empty()) {
    options.preallocate = value_or_usage_error("--preallocate", parse_limit(arguments.preallocate));
  }
  if (arguments.device.source == "contiguous") options.remap_slack = 1.0;
  return options;
}

ReplaySettings understand(const ReplayArguments& arguments) {
  ReplaySettings settings;
  settings.options = allocator_options(arguments);
  settings.source = simulated_options(arguments.device);
  settings.preallocate_given = settings.options.preallocate != Amount{} || settings.options.limit.has_value();
  settings.strategies = parse_strategies(arguments.strategies, settings.options.strategy);
  if (arguments.lag && arguments.round_count == 0) throw UsageError("--lag needs --rounds");
  if (!arguments.svg.empty() && arguments.round_count != 0) throw UsageError("--svg draws no --rounds");
  if (!arguments.svg.empty() && arguments.files.size() > 1) {
    throw UsageError("--svg draws one trace, " + std::to_string(arguments.files.size()) + " are given");
  }
  return settings;
}

Options options_for(const ReplaySettings& settings, Strategy strategy, const ReplayProgram& program) {
  Options options = settings.options;
  options.strategy = strategy;
  if (strategy == Strategy::kPreallocate && !settings.preallocate_given) {
    options.preallocate = Amount{default_preallocate_bytes(program, settings.source.granule_bytes)};
  }
  if (strategy == Strategy::kPlan && options.plan_file.empty()) {
    options.plan = plan_of(program, options, settings.source.granule_bytes);
  }
  return with_plan(std::move(options));
}

void draw(const ReplaySettings& settings, const ReplayProgram& program, const std::string& path) {
  std::vector<HeapPanel> panels;
  for (const Strategy strategy : settings.strategies) {
    SimulatedSource source(settings.source);
    panels.push_back(
        {strategy_name(strategy), replay_events(program, options_for(settings, strategy, program), source)});
  }
  OutputFile file(path);
  file.write(draw_heap(program.name, panels));
  file.close();
}

[[noreturn]] void complain(const std::string& trace, Strategy strategy, std::uint64_t count, const Failure& first) {
  throw DataError(trace + " under " + strategy_name(strategy) + ": " + std::to_string(count) +
                  " allocations failed, the first so: " + first.cause());
}

/// As run_replay, in rounds.
void run_rounds(const ReplayArguments& arguments, const ReplaySettings& settings,
                const std::vector<ReplayProgram>& programs, std::ostream& out) {
  RoundSettings rounds;
  rounds.round_count = arguments.round_count;
  if (arguments.lag) rounds.device_lag = *arguments.lag;
  std::vector<RoundsReport> reports;
  for (std::size_t index = 0; index < programs.size(); ++index) {
    const ReplayProgram& program = programs[index];
    for (const Strategy strategy : settings.strategies) {
      SimulatedSource source(settings.source);
      reports.push_back({arguments.files[index], program.name, program.operations.size(), program.lower_bound_bytes,
                         strategy, source.traits(),
                         replay_rounds(program, options_for(settings, strategy, program), source, rounds)});
    }
  }
  arguments.json ? write_rounds_json(reports, out) : write_rounds_table(reports, out);
  for (const RoundsReport& report : reports) {
    for (const ReplayRound& round : report.rounds) {
      if (round.failure_count != 0) complain(report.trace, report.strategy, round.failure_count, *round.first_failure);
    }
  }
}

void complain_of_failures(const std::vector<ReplayReport>& reports) {
  for (const ReplayReport& report : reports) {
    for (const ReplayRun& run : report.runs) {
      if (run.result.failure_count == 0) continue;
      complain(report.trace, run.options.strategy, run.result.failure_count, *run.result.first_failure);
    }
  }
}

ReplayReport replay_all(const ReplaySettings& settings, const ReplayProgram& program, const std::string& path,
                        int pass_count) {
  ReplayReport report{path, program.name, program.operations.size(), {}};
  for (const Strategy strategy : settings.strategies) {
    const Options options = options_for(settings, strategy, program);
    SimulatedSource source(settings.source);
    report.runs.push_back({options, source.traits(), replay(program, options, source, pass_count)});
  }
  return report;
}

}  // namespace

void add_replay_command(CLI::App& app, ReplayArguments& arguments) {
  CLI::App* command = app.add_subcommand("replay", "Replay traces on a simulated device under any strategy");
  command->footer(kFooter);
  command->add_option("FILE", arguments.files, "Traces to replay")->required()->type_name("");
  add_strategies_option(*command, arguments.strategies);
  add_device_options(*command, arguments.device);
  command
      ->add_option("--limit", arguments.limit, "Most the allocator may reserve: 512MiB, 80% of the capacity")
      ->type_name("SIZE");
  command
      ->add_option("--preallocate", arguments.preallocate,
                   "Size under preallocate (default: the limit if there is one, else 1.05 x the lower bound, "
                   "rounded up to the granule)")
      ->type_name("SIZE");
  command
      ->add_option("--plan", arguments.plan,
                   "What cistern plan wrote, for strategy plan (default: a plan made of the trace itself)")
      ->type_name("FILE");
  command->add_option("--repeat", arguments.pass_count, "Passes of which the median time is told")
      ->check(CLI::Range(1, 100000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--rounds", arguments.round_count, "Replay N times on one allocator, and tell each")
      ->check(CLI::Range(1, 100000))
      ->type_name("N");
  command->add_option("--lag", arguments.lag, "With --rounds: operations by which the device is behind (default: until waited for)")
      ->type_name("N");
  command
      ->add_option("--conf", arguments.configuration,
                   "Options as in CISTERN_CONF: key:value,key:value; flags win")
      ->type_name("TEXT");
  command->add_option("--svg", arguments.svg, "Draw the heap over time, one panel a strategy")
      ->type_name("FILE");
  command->add_flag("--json", arguments.json, "Write JSON instead of the table");
}

void run_replay(const ReplayArguments& arguments, std::ostream& out) {
  const ReplaySettings settings = understand(arguments);
  std::vector<ReplayProgram> programs;
  for (const std::string& file : arguments.files) programs.push_back(load_replay_program(file));
  if (arguments.round_count != 0) return run_rounds(arguments, settings, programs, out);
  std::vector<ReplayReport> reports;
  for (std::size_t index = 0; index < programs.size(); ++index) {
    reports.push_back(replay_all(settings, programs[index], arguments.files[index], arguments.pass_count));
  }
  if (!arguments.svg.empty()) draw(settings, programs.front(), arguments.svg);
  arguments.json ? write_json(reports, out) : write_table(reports, out);
  complain_of_failures(reports);
}

}  // namespace cistern::cli
