#include "apps/train/options.hpp"

#include <cmath>
#include <set>

#include "apps/common/cli.hpp"
#include "models/weights_file.hpp"

namespace cistern::train {
namespace {

using apps::UsageError;

std::string check_rate(const std::string& text) {
  double rate = 0.0;
  if (CLI::detail::lexical_cast(text, rate) && std::isfinite(rate) && rate > 0.0) return {};
  return "'" + text + "' is not a positive number";
}

void add_training_options(CLI::App& app, TrainOptions& options) {
  const CLI::Validator rate(check_rate, "", "rate");
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "Images a step (32)")->check(CLI::Range(1, 60'000));
  app.add_option("--lr", options.learning_rate, "Adam's learning rate (0.001)")->check(rate);
  app.add_option("--lr-decay", options.learning_rate_decay, "What it is multiplied by after each epoch (1)")
      ->check(rate);
  app.add_option("--seed", options.seed, "Of initial weights, shuffling and augmentation (0)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", options.threads, "Of torch (one for each core)")->check(CLI::Range(1, 1024));
  app.add_option("--loop", options.loop,
                 "tuned: gradients written out; plain: autograd, as in a tutorial (on the CPU tuned, on CUDA "
                 "plain, which is the only one there; mobilenet_v2 has plain only)")
      ->check(CLI::IsMember({kTunedLoop, kPlainLoop}));
}

void add_network_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--model", options.model, "mnist_cnn or mobilenet_v2 (mnist_cnn)")
      ->check(CLI::IsMember({models::kMnistCnnName, models::kMobileNetV2Name}));
  app.add_option("--width", options.width, "mobilenet_v2: multiplies all channels (1)")
      ->check(CLI::Range(0.05, 4.0));
  app.add_option("--size", options.size,
                 "mobilenet_v2: side of the network's input (224; of an IDX set its own). Up to 64 the first "
                 "convolution keeps the size")
      ->check(CLI::Range(8, 1024));
  app.add_option("--augment", options.augmentation, "mobilenet_v2: none, crop, flip or crop,flip (crop,flip)")
      ->check(CLI::IsMember({"none", "crop", "flip", "crop,flip"}));
  app.add_option("--weights", options.weights,
                 "Weights file to start from; where the classes are others, the last layer is new");
}

}  // namespace

void add_options(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option(
         "--dataset,--data", options.dataset,
         "mnist; fashion-mnist; a directory with MNIST's four files, plain or .gz; for mobilenet_v2 also "
         "one with CLASS/NAME.jpg")
      ->capture_default_str();
  add_network_options(app, options);
  add_training_options(app, options);
  apps::add_memory_options(app, options.memory);
  app.add_option("--compare", options.compare, "Train once under each of these strategies, in own processes")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->check(apps::strategy_names());
  app.add_option("--checkpoint", options.checkpoint, "Directory to save to after each epoch and on Ctrl-C");
  app.add_flag("--resume", options.resume, "Go on from the checkpoint, bit for bit as if never stopped");
  app.add_option("--save", options.save,
                 "Write the trained weights to this file, for cistern-classify and --evaluate");
  app.add_option("--evaluate", options.evaluate,
                 "Train nothing; measure this weights file on the test images");
  app.add_flag("--json", options.json, "Print the results as one JSON object, and nothing else, on stdout");
}

void check_options(const TrainOptions& options) {
  const bool comparing = !options.compare.empty();
  const bool saving = !options.checkpoint.empty() || !options.save.empty();
  if (options.resume && options.checkpoint.empty()) throw UsageError("--resume needs --checkpoint DIR");
  if (comparing && (options.memory.strategy || options.resume || saving || !options.memory.record.empty())) {
    throw UsageError(
        "--compare trains several times; it does not go with --strategy, --checkpoint, --resume, --save or "
        "--record");
  }
  if (std::set<std::string>(options.compare.begin(), options.compare.end()).size() !=
      options.compare.size()) {
    throw UsageError("--compare names a strategy twice");
  }
  if (!options.evaluate.empty() && (comparing || saving || !options.weights.empty() || options.model)) {
    throw UsageError(
        "--evaluate trains nothing; it does not go with --compare, --checkpoint, --save, --weights or "
        "--model");
  }
  if (options.resume && !options.weights.empty())
    throw UsageError("--resume goes on from the checkpoint; it does not go with --weights");
  if (options.loop == kTunedLoop && options.memory.device.starts_with("cuda")) {
    throw UsageError("--loop tuned is code for the CPU; with --device " + options.memory.device +
                     " take --loop plain");
  }
  const bool mobilenet = options.model == models::kMobileNetV2Name;
  if (options.loop == kTunedLoop && mobilenet) throw UsageError("--loop tuned is of mnist_cnn only");
  if ((options.width || options.size || options.augmentation) && !mobilenet && options.weights.empty() &&
      !options.resume) {
    throw UsageError("--width, --size and --augment are of --model mobilenet_v2");
  }
  if ((options.width || options.size) && !options.weights.empty())
    throw UsageError("--weights has a width and a size already; it does not go with --width or --size");
  if (!comparing) apps::check_memory_options(options.memory);
  for (const std::string& strategy : options.compare) {
    apps::MemoryOptions memory = options.memory;
    memory.strategy = strategy;
    apps::allocator_options(memory, apps::ComputedOn::kCpu);
  }
}

std::vector<std::string> arguments_for(const TrainOptions& options, const std::string& strategy) {
  apps::MemoryOptions memory = options.memory;
  memory.strategy = strategy;
  std::vector<std::string> arguments = apps::arguments_for(memory);
  const auto add = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  arguments.push_back("--json");
  add("--dataset", options.dataset);
  add("--epochs", std::to_string(options.epochs));
  if (options.model) add("--model", *options.model);
  if (options.width) add("--width", CLI::detail::to_string(*options.width));
  if (options.size) add("--size", std::to_string(*options.size));
  if (options.augmentation) add("--augment", *options.augmentation);
  if (!options.weights.empty()) add("--weights", options.weights);
  if (options.loop) add("--loop", *options.loop);
  if (options.batch_size) add("--batch-size", std::to_string(*options.batch_size));
  if (options.learning_rate) add("--lr", CLI::detail::to_string(*options.learning_rate));
  if (options.learning_rate_decay) add("--lr-decay", CLI::detail::to_string(*options.learning_rate_decay));
  if (options.seed) add("--seed", std::to_string(*options.seed));
  if (options.threads) add("--threads", std::to_string(*options.threads));
  return arguments;
}

}  // namespace cistern::train
