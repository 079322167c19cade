#include "plan_command.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <ostream>

#include <nlohmann/json.hpp>

#include "cistern/base/units.hpp"
#include "cistern/observe/make_plan.hpp"
#include "cistern/observe/placement_csv.hpp"
#include "cistern/observe/plan_file.hpp"
#include "errors.hpp"

namespace cistern::cli {
namespace {

constexpr const char* kFooter =
    R"(FILE is a run or a list of buffers, told apart by its content, plain or gzip:
  event trace, or CSV action,id,bytes,stream   as for cistern replay. OUT becomes a plan, JSON, which
      CISTERN_CONF=strategy:plan,plan:OUT serves: the same program run again gets each block where the plan
      has it, and reserves what the plan is high. What deviates is served as under strategy growth. A job that
      iterates may be recorded for a few iterations; the last is repeated for ever.
  CSV id,lower,upper,size   buffers that live from lower until before upper. OUT becomes the same CSV with a
      column more, offset.

Printed: lower bound (most bytes alive at once), height (what the placement needs; each stream has memory of its
own, and their heights are summed) and their ratio. --json writes {"file", "output", "kind", "lower_bound_bytes",
"height_bytes", "ratio", "buffers", "lanes", "seconds"} instead. Under the lower bound nothing is possible; what
the few quick passes leave above it is tried with an exact search (up to 2048 buffers) and by chance until
--seconds have passed.

Exit code: 0 written; 1 a file cannot be read or written, or no placement within --capacity was found; 2 the
command line is wrong. OUT appears when it is complete, or not at all.)";

struct Outcome {
  const char* kind;
  std::uint64_t lower_bound_bytes = 0;
  std::uint64_t height_bytes = 0;
  std::size_t buffer_count = 0;
  std::size_t lane_count = 0;  ///< Of a run.
  double seconds = 0.0;
  double ratio() const { return static_cast<double>(height_bytes) / static_cast<double>(lower_bound_bytes); }
};

std::size_t size_of(const std::string& flag, const std::string& text) {
  const auto parsed = parse_size(text);
  if (!parsed) throw UsageError(flag + ": " + parsed.error());
  return *parsed;
}

void check_capacity(const PlanArguments& arguments, std::size_t capacity, const Outcome& outcome) {
  if (outcome.height_bytes <= capacity) return;
  throw DataError(arguments.file + ": the lowest placement found is " + std::to_string(outcome.height_bytes) +
                  " bytes high, above --capacity " + arguments.capacity +
                  (outcome.lower_bound_bytes > capacity ? ", and so is the lower bound: nothing fits"
                                                        : "; more --seconds may help") +
                  "; nothing was written");
}

Outcome plan_buffers(const PlanArguments& arguments, std::size_t capacity) {
  const PlacementProblem problem = load_placement_csv(arguments.file);
  planning::PlaceOptions options;
  options.seconds = arguments.seconds;
  if (!arguments.capacity.empty()) options.capacity = capacity;
  const planning::Placement placement = planning::place(problem.buffers, options);
  Outcome outcome{"buffers", planning::lower_bound(problem.buffers), placement.height, problem.buffers.size()};
  check_capacity(arguments, capacity, outcome);
  write_placement_csv(arguments.output, problem, placement);
  return outcome;
}

Outcome plan_run(const PlanArguments& arguments, std::size_t capacity) {
  PlanOptions options;
  options.granule_bytes = size_of("--granule", arguments.granule);
  options.seconds = arguments.seconds;
  if (options.granule_bytes == 0 || (options.granule_bytes & (options.granule_bytes - 1)) != 0) {
    throw UsageError("--granule: " + arguments.granule + " is not a power of two");
  }
  const PlanFile file = is_event_trace(arguments.file)
                            ? make_plan(read_trace(arguments.file), arguments.file, options)
                            : make_plan(load_replay_program(arguments.file), options);
  Outcome outcome{"run", file.lower_bound_bytes, 0};
  outcome.lane_count = file.plan.lanes.size();
  for (const PlanLane& lane : file.plan.lanes) {
    outcome.height_bytes += lane.height_bytes;
    outcome.buffer_count += lane.requests.size();
  }
  check_capacity(arguments, capacity, outcome);
  write_plan(arguments.output, file);
  return outcome;
}

void write_json(const PlanArguments& arguments, const Outcome& outcome, std::ostream& out) {
  nlohmann::ordered_json json;
  json["file"] = arguments.file;
  json["output"] = arguments.output;
  json["kind"] = outcome.kind;
  json["lower_bound_bytes"] = outcome.lower_bound_bytes;
  json["height_bytes"] = outcome.height_bytes;
  json["ratio"] = outcome.ratio();
  json["buffers"] = outcome.buffer_count;
  json["lanes"] = outcome.lane_count;
  json["seconds"] = outcome.seconds;
  out << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace

CLI::App* add_plan_command(CLI::App& app, PlanArguments& arguments) {
  CLI::App* command = app.add_subcommand("plan", "Compute where the blocks of a recorded run would best lie");
  command->footer(kFooter);
  command->add_option("FILE", arguments.file, "A recorded run, or a list of buffers")->required()->type_name("");
  command->add_option("-o,--output", arguments.output, "Where the plan, or the offsets, go; .gz packs")
      ->required()
      ->type_name("OUT");
  command->add_option("--granule", arguments.granule, "A run's plan may fill up the last granule of memory")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_option("--capacity", arguments.capacity,
                   "Highest placement allowed; for buffers also the height that ends the search")
      ->type_name("SIZE");
  command->add_option("--seconds", arguments.seconds, "Most time to look for a lower placement, for each stream")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--json", arguments.json, "Write JSON instead of the line");
  return command;
}

void run_plan(const PlanArguments& arguments, std::ostream& out) {
  std::size_t capacity = ~std::size_t{0};
  if (!arguments.capacity.empty()) capacity = size_of("--capacity", arguments.capacity);
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome =
      is_placement_csv(arguments.file) ? plan_buffers(arguments, capacity) : plan_run(arguments, capacity);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (arguments.json) return write_json(arguments, outcome, out);
  std::array<char, 32> ratio{};
  std::snprintf(ratio.data(), ratio.size(), "%.6f", outcome.ratio());
  out << arguments.output << ": " << outcome.buffer_count << " buffers, lower bound " << outcome.lower_bound_bytes
      << ", height " << outcome.height_bytes << " bytes, ratio " << ratio.data() << '\n';
}

}  // namespace cistern::cli
