#include "generate_command.hpp"

#include <charconv>
#include <ostream>
#include <stdexcept>

#include "cistern/base/units.hpp"
#include "cistern/observe/csv_trace.hpp"
#include "errors.hpp"
#include "workloads/workloads.hpp"

namespace cistern::cli {
namespace {

/// Every workload with its parameters: the help's last part.
std::string describe_workloads() {
  std::string text = "Workloads, and what --set may change:\n";
  for (const workloads::Workload& workload : workloads::all_workloads()) {
    text += "  " + std::string(workload.name) + ": " + workload.why + "\n";
    for (const workloads::Parameter& parameter : workload.parameters) {
      text += "    " + std::string(parameter.name) + "=" + std::to_string(parameter.value) + "  " + parameter.what + "\n";
    }
  }
  return text + "The same name, seed and settings make the same file everywhere. `cistern replay FILE` reads it.";
}

workloads::Settings parse_settings(const std::vector<std::string>& texts) {
  workloads::Settings settings;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] =
        equals == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                    : std::from_chars(text.data() + equals + 1, end, value);
    if (code != std::errc{} || stop != end) throw UsageError("--set: \"" + text + "\" is not PARAMETER=NUMBER");
    settings[text.substr(0, equals)] = value;
  }
  return settings;
}

}  // namespace

CLI::App* add_generate_command(CLI::App& app, GenerateArguments& arguments) {
  CLI::App* command = app.add_subcommand("generate", "Write the trace of a made-up workload, by its seed");
  command->footer(describe_workloads());
  command->add_option("NAME", arguments.name, "Which workload")->required()->type_name("");
  command->add_option("--out", arguments.out, "The file; packed if it ends in .gz")->required()->type_name("FILE");
  command->add_option("--seed", arguments.seed, "Another seed is another trace")->type_name("N")->capture_default_str();
  command->add_option("--set", arguments.settings, "A parameter's value, as often as wanted")->type_name("PARAMETER=NUMBER");
  return command;
}

void run_generate(const GenerateArguments& arguments, std::ostream& out) {
  const workloads::Settings settings = parse_settings(arguments.settings);
  ReplayProgram program;
  try {
    program = workloads::generate(arguments.name, arguments.seed, settings);
  } catch (const std::invalid_argument& error) {
    throw UsageError("generate: " + std::string(error.what()) + " (cistern generate --help lists them)");
  }
  std::string comment = "cistern generate " + arguments.name + " --seed " + std::to_string(arguments.seed);
  for (const auto& [name, value] : settings) comment += " --set " + name + "=" + std::to_string(value);
  write_csv_program(program, comment, arguments.out);
  out << arguments.out << ": " << program.operations.size() << " operations, at most "
      << format_bytes(program.lower_bound_bytes) << " live\n";
}

}  // namespace cistern::cli
