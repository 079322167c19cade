#include "apps/classify/options.hpp"

#include <algorithm>

#include "apps/common/cli.hpp"
#include "models/image_input.hpp"

namespace cistern::classify {

using apps::UsageError;

void add_options(CLI::App& app, ClassifyOptions& options) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option(
         "inputs", options.inputs,
         "Images; folders, with all below them; lists, NAME.txt with a path a line; - is a list on stdin, "
         "answered as it comes")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--weights", options.weights,
                 "Weights file (the shipped network, trained on Fashion-MNIST)");
  app.add_option("--labels", options.labels, "File with a label a line, instead of those in the weights");
  app.add_option("--watch", options.watch,
                 "Serve this folder: classify the images in it, then each that is written or moved there");
  app.add_option("--top", options.top, "Labels an image")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--batch", options.batch, "Images at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "That compute (one for each core)")
      ->check(CLI::Range(1, 1024));
  app.add_option(
         "--resize", options.resize,
         "bilinear: as TensorFlow does, without antialias; antialias: as torchvision and Pillow do; crop: "
         "the middle square, with antialias")
      ->check(
          CLI::IsMember(std::vector<std::string>(models::kResizeNames.begin(), models::kResizeNames.end())))
      ->capture_default_str();
  apps::add_memory_options(app, options.memory);
  app.add_flag("--json", options.json, "Print one JSON object a line: one for each image, then the summary");
}

void check_options(const ClassifyOptions& options) {
  if (options.inputs.empty() && options.watch.empty())
    throw UsageError(
        "nothing to classify: name images, folders or lists, - for a list on stdin, or --watch DIR");
  if (!options.inputs.empty() && !options.watch.empty())
    throw UsageError("--watch serves a folder and goes with no other images");
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 1) throw UsageError("- is named twice");
  apps::check_memory_options(options.memory);
}

}  // namespace cistern::classify
