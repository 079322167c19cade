#include "run_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string_view>

#include "cistern/adapters/plugs.hpp"
#include "cistern/core/config.hpp"
#include "errors.hpp"

namespace cistern::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPreloaded = "libcistern_preload.so";
constexpr const char* kFooter =
    R"(COMMAND and the programs it starts run as they are; those that use torch (the C++ library or Python's)
allocate their tensors through cistern, all but the very first one. All others notice nothing.

  cistern run --limit 8GiB --report -- python3 train.py --epochs 3

Environment: CISTERN_CONF (key:value,key:value; see the README for the keys) is the base, flags win over it.
COMMAND gets the result as CISTERN_CONF, and LD_PRELOAD with libcistern_preload.so in front of what was there.
Programs that are linked statically or run with more rights than their caller ignore LD_PRELOAD.

With several processes under one --record FILE the last to end wins.

Exit code: that of COMMAND; 127 COMMAND was not found; 126 it cannot be started; 2 the command line,
CISTERN_CONF or a plug of cistern is wrong. In COMMAND: running out under --limit is torch's OutOfMemoryError.)";

/// The libraries that belong to this program: those of its build tree or its install tree.
fs::path library_folder() {
  const fs::path own = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* folder : {CISTERN_LIBRARY_FOLDER, "../lib"}) {
    const fs::path candidate = (own / folder).lexically_normal();
    if (fs::exists(candidate / kPreloaded)) return candidate;
  }
  throw DataError(std::string(kPreloaded) + " is missing: it belongs into " +
                  (own / CISTERN_LIBRARY_FOLDER).lexically_normal().string());
}

void check_devices(const RunArguments& arguments, const fs::path& libraries) {
  for (const std::string& device : arguments.devices) {
    const Plug* plug = find_plug(device.c_str());
    if (plug == nullptr) throw UsageError("--devices: unknown device \"" + device + "\", use " + kPlugDevices);
    if (!fs::exists(libraries / plug->file)) {
      throw UsageError("--devices: this build of cistern has no plug for " + device + ": " +
                       (libraries / plug->file).string() + " does not exist");
    }
  }
}

/// What the flags say, by key of CISTERN_CONF. Each is checked by itself, so that an error names the flag.
std::map<std::string, std::string> flags_of(const RunArguments& arguments) {
  std::map<std::string, std::string> flags;
  const auto take = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    if (value.find(',') != std::string::npos)
      throw UsageError("--" + std::string(key) + ": a comma in \"" + value + "\"");
    flags[key] = value;
  };
  take("strategy", arguments.strategy);
  take("limit", arguments.limit);
  take("preallocate", arguments.preallocate);
  take("trim", arguments.trim);
  if (!arguments.record.empty())
    take("record", fs::absolute(arguments.record).string());  // COMMAND may change directory.
  if (!arguments.plan.empty()) take("plan", fs::absolute(arguments.plan).string());
  for (const auto& [key, value] : flags) {
    if (key == "trim" || value == "plan") continue;  // May need what another key says.
    if (const auto parsed = parse_config(key + ":" + value); !parsed) {
      const std::string& message = parsed.error().message;
      throw UsageError("--" + key + message.substr(message.find(": ")));
    }
  }
  return flags;
}

/// CISTERN_CONF with the flags in the place of its own keys.
std::string configuration_of(const RunArguments& arguments) {
  const char* environment = std::getenv("CISTERN_CONF");
  const std::string base = environment == nullptr ? "" : environment;
  if (const auto parsed = parse_config(base); !parsed) throw UsageError("CISTERN_CONF: " + parsed.error().message);
  const auto flags = flags_of(arguments);
  std::string text;
  const auto add = [&](std::string_view item) { text += (text.empty() ? "" : ",") + std::string(item); };
  for (std::size_t begin = 0; begin < base.size();) {
    const std::size_t end = std::min(base.find(',', begin), base.size());
    const std::string item = base.substr(begin, end - begin);
    if (!flags.contains(item.substr(0, item.find(':')))) add(item);
    begin = end + 1;
  }
  for (const auto& [key, value] : flags) add(key + ":" + value);
  const auto options = parse_config(text);
  if (!options) throw UsageError("the flags and CISTERN_CONF together: " + options.error().message);
  const bool on_host = std::any_of(arguments.devices.begin(), arguments.devices.end(),
                                   [](const std::string& device) { return device != "cuda"; });
  if (on_host && options->strategy == Strategy::kPreallocate && options->preallocate == Amount{} && !options->limit) {
    throw UsageError("strategy preallocate takes host memory: say how much with --preallocate or --limit");
  }
  return text;
}

std::string with_commas(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

void set_environment(const RunArguments& arguments) {
  const fs::path libraries = library_folder();
  check_devices(arguments, libraries);
  const std::string configuration = configuration_of(arguments);
  std::string preload = (libraries / kPreloaded).string();
  if (preload.find_first_of(" :") != std::string::npos) {
    throw DataError("LD_PRELOAD cannot hold a path with a space or colon: " + preload);
  }
  const char* present = std::getenv("LD_PRELOAD");
  if (present != nullptr && *present != '\0') preload += ":" + std::string(present);
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("CISTERN_CONF", configuration.c_str(), 1);
  setenv("CISTERN_DEVICES", with_commas(arguments.devices).c_str(), 1);
  if (arguments.report) setenv("CISTERN_REPORT", "1", 1);
}

}  // namespace

std::vector<char*> take_command(int argc, char** argv, RunArguments& arguments) {
  char** const end = argv + argc;
  char** const dashes =
      argc < 2 || std::strcmp(argv[1], "run") != 0
          ? end
          : std::find_if(argv, end, [](const char* argument) { return std::strcmp(argument, "--") == 0; });
  if (dashes != end) arguments.command.assign(dashes + 1, end);
  return {argv, dashes};
}

CLI::App* add_run_command(CLI::App& app, RunArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "run", "Run a program with cistern under its torch tensors: cistern run [OPTIONS] -- COMMAND...");
  command->footer(kFooter);
  command->add_option("--devices", arguments.devices, "Whose tensors: cpu, cuda, pinned (host memory that devices reach), with commas between")
      ->delimiter(',')
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("--strategy", arguments.strategy, "growth (the default), geometric, preallocate or plan")
      ->type_name("NAME");
  command
      ->add_option("--limit", arguments.limit,
                   "Most that may be reserved, each device by itself: 8GiB, 80% of the capacity")
      ->type_name("SIZE");
  command
      ->add_option("--preallocate", arguments.preallocate,
                   "What strategy preallocate takes at once (default: the limit)")
      ->type_name("SIZE");
  command
      ->add_option("--plan", arguments.plan,
                   "For strategy plan: what cistern plan made of a run that --record wrote")
      ->type_name("FILE");
  command
      ->add_option(
          "--trim", arguments.trim,
          "When idle memory goes back: keep_all (the default: when asked, or on a miss), idle, above_high_water")
      ->type_name("MODE");
  command
      ->add_option("--record", arguments.record, "Write the trace of all events there, of devices but the CPU to FILE.cuda:0 and such, for cistern replay")
      ->type_name("FILE");
  command->add_flag("--report", arguments.report,
                    "At the end of each process served, say on stderr what its memory was like");
  return command;
}

int run_command(const RunArguments& arguments) {
  if (arguments.command.empty()) throw UsageError("run: COMMAND is missing; write cistern run [OPTIONS] -- COMMAND");
  set_environment(arguments);
  std::vector<char*> words;
  for (const std::string& word : arguments.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  const int error = errno;
  std::cerr << "cistern: " << words.front() << ": " << std::strerror(error) << '\n';
  return error == ENOENT ? 127 : 126;
}

}  // namespace cistern::cli
