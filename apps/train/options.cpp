#include "apps/train/options.hpp"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "apps/common/cli.hpp"
#include "apps/common/subprocess.hpp"

namespace cistern::train {
namespace {

namespace fs = std::filesystem;
using apps::UsageError;

// On the CPU all of memory is no sensible preallocation, so the trainer brings a size of its own there.
constexpr Amount kDefaultPreallocation{512 * kMiB, 0.0};

// In an install tree the data lie beside the program, in a build tree in the sources.
std::string default_data() {
  std::error_code error;
  const fs::path installed = fs::path(apps::own_executable()).parent_path() / CISTERN_INSTALLED_DATA;
  return fs::is_directory(installed, error) ? installed.lexically_normal().string() : CISTERN_SOURCE_DATA;
}

std::string check_device(const std::string& device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return {};
  int index = 0;
  const char* end = device.data() + device.size();
  if (device.starts_with("cuda:")) {
    const auto [stop, error] = std::from_chars(device.data() + 5, end, index);
    if (error == std::errc{} && stop == end && index >= 0) return {};
  }
  return "'" + device + "' is not auto, cpu, cuda or cuda:N";
}

std::string check_learning_rate(const std::string& text) {
  double rate = 0.0;
  if (CLI::detail::lexical_cast(text, rate) && std::isfinite(rate) && rate > 0.0) return {};
  return "'" + text + "' is not a positive number";
}

std::string text_of(const Amount& amount) {
  if (amount.share > 0.0) return std::to_string(amount.share * 100.0) + "%";
  return std::to_string(amount.bytes) + "B";
}

}  // namespace

void add_options(CLI::App& app, TrainOptions& options) {
  const CLI::IsMember strategies({"growth", "geometric", "preallocate", kSystem});
  options.data = default_data();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--data", options.data, "Directory with MNIST's four files, plain or .gz")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "Images a step (32)")->check(CLI::Range(1, 60'000));
  app.add_option("--lr", options.learning_rate, "Adam's learning rate (0.001)")
      ->check(CLI::Validator(check_learning_rate, "", "rate"));
  app.add_option("--seed", options.seed, "Of initial weights and shuffling (0)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", options.threads, "Of torch (one for each core)")->check(CLI::Range(1, 1024));
  app.add_option("--device", options.device, "auto, cpu, cuda or cuda:N")
      ->check(CLI::Validator(check_device, "", "device"))
      ->capture_default_str();
  app.add_option("--loop", options.loop,
                 "tuned: gradients written out; plain: autograd, as in a tutorial (on the CPU tuned, on CUDA "
                 "plain, which is "
                 "the only one there)")
      ->check(CLI::IsMember({kTunedLoop, kPlainLoop}));
  app.add_option("--strategy", options.strategy,
                 "How memory grows; system is torch's own allocator, untouched (growth)")
      ->check(strategies);
  apps::add_limit(app, "--limit", options.limit,
                  "Most memory for tensors on the device trained on: 512MiB, 80%");
  apps::add_amount(app, "--preallocate", options.preallocate,
                   "What strategy preallocate takes at once (on the CPU 512MiB, on CUDA what is free)");
  app.add_option("--compare", options.compare, "Train once under each of these strategies, in own processes")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->check(strategies);
  app.add_option("--checkpoint", options.checkpoint, "Directory to save to after each epoch and on Ctrl-C");
  app.add_flag("--resume", options.resume, "Go on from the checkpoint, bit for bit as if never stopped");
  app.add_option("--record", options.record,
                 "Write the trace of all allocations to this file; on CUDA the device's, to FILE.cuda:N");
  app.add_flag("--json", options.json, "Print the results as one JSON object, and nothing else, on stdout");
}

std::optional<Options> allocator_options(const TrainOptions& options, TrainedOn device) {
  const char* environment = std::getenv("CISTERN_CONF");
  const auto configured = parse_config(environment ? environment : "");
  if (!configured) throw UsageError("CISTERN_CONF: " + configured.error().message);
  Options result = *configured;
  if (options.strategy == kSystem) return std::nullopt;
  if (options.strategy) result.strategy = *strategy_from_name(*options.strategy);
  if (options.limit) result.limit = options.limit;
  if (!options.record.empty()) result.record = options.record;
  if (options.preallocate) result.preallocate = *options.preallocate;
  if (device == TrainedOn::kCpu && result.strategy == Strategy::kPreallocate &&
      result.preallocate == Amount{} && !result.limit) {
    result.preallocate = kDefaultPreallocation;
  }
  return result;
}

void check_options(const TrainOptions& options) {
  const bool comparing = !options.compare.empty();
  if (options.resume && options.checkpoint.empty()) throw UsageError("--resume needs --checkpoint DIR");
  if (comparing &&
      (options.strategy || options.resume || !options.checkpoint.empty() || !options.record.empty())) {
    throw UsageError(
        "--compare trains several times; it does not go with --strategy, --checkpoint, --resume or --record");
  }
  if (std::set<std::string>(options.compare.begin(), options.compare.end()).size() !=
      options.compare.size()) {
    throw UsageError("--compare names a strategy twice");
  }
  if (options.strategy == kSystem && (options.limit || options.preallocate || !options.record.empty())) {
    throw UsageError(
        "--strategy system leaves torch's allocator alone; it knows no --limit, --preallocate or --record");
  }
  if (options.loop == kTunedLoop && options.device.starts_with("cuda")) {
    throw UsageError("--loop tuned is code for the CPU; with --device " + options.device +
                     " take --loop plain");
  }
  if (!comparing) {
    allocator_options(options, TrainedOn::kCpu);
    return;
  }
  for (const std::string& strategy : options.compare) {
    TrainOptions run = options;
    run.strategy = strategy;
    allocator_options(run, TrainedOn::kCpu);
  }
}

std::vector<std::string> arguments_for(const TrainOptions& options, const std::string& strategy) {
  std::vector<std::string> arguments{
      "--json",   "--strategy",  strategy, "--data", options.data, "--epochs", std::to_string(options.epochs),
      "--device", options.device};
  const auto add = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  if (options.loop) add("--loop", *options.loop);
  if (options.batch_size) add("--batch-size", std::to_string(*options.batch_size));
  if (options.learning_rate) add("--lr", CLI::detail::to_string(*options.learning_rate));
  if (options.seed) add("--seed", std::to_string(*options.seed));
  if (options.threads) add("--threads", std::to_string(*options.threads));
  if (options.limit && strategy != kSystem) add("--limit", text_of(*options.limit));
  if (options.preallocate && strategy == "preallocate") add("--preallocate", text_of(*options.preallocate));
  return arguments;
}

}  // namespace cistern::train
