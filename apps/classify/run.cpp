#include "apps/classify/run.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <iostream>

#include "apps/classify/classifier.hpp"
#include "apps/classify/image_names.hpp"
#include "apps/classify/output.hpp"
#include "apps/common/cli.hpp"
#include "apps/common/installed.hpp"
#include "apps/common/interrupt.hpp"
#include "apps/common/memory_setup.hpp"
#include "apps/common/progress.hpp"
#include "apps/common/stopwatch.hpp"
#include "apps/common/text.hpp"
#include "apps/common/torch_errors.hpp"
#include "cistern/observe/files.hpp"
#include "models/image_file.hpp"

namespace cistern::classify {
namespace {

using models::Weights;

std::string weights_file(const ClassifyOptions& options) {
  if (!options.weights.empty()) return options.weights;
  return (apps::shipped_folder("weights") / "fashion_mnist.safetensors").string();
}

std::vector<std::string> read_labels(const std::string& name, std::size_t wanted) {
  InputFile file(name);
  std::vector<std::string> labels;
  for (std::string line; labels.size() <= wanted && file.read_line(line);) labels.push_back(line);
  if (labels.size() == wanted) return labels;
  throw FileError(
      name, "has " + (labels.size() > wanted ? "more lines" : std::to_string(labels.size()) + " lines") +
                "; the weights tell " + std::to_string(wanted) + " classes apart");
}

Weights load(const ClassifyOptions& options, const std::string& file) {
  Weights weights = models::read_weights(file);
  const std::int64_t channels = weights.card.preprocessing.channels;
  if (channels != 1 && channels != 3)
    throw FileError(file, "wants pictures of " + std::to_string(channels) + " channels; files have 1 or 3");
  if (!options.labels.empty()) weights.card.labels = read_labels(options.labels, weights.card.labels.size());
  return weights;
}

models::Resize resize_from(const std::string& name) {
  const auto* found = std::find(models::kResizeNames.begin(), models::kResizeNames.end(), name);
  return static_cast<models::Resize>(found - models::kResizeNames.begin());
}

class Run {
 public:
  Run(const ClassifyOptions& options, const apps::ChosenDevice& device, apps::MemorySetup& memory)
      : options_(options),
        memory_(memory),
        names_(options.watch.empty() ? names_from(options.inputs) : names_in(options.watch)),
        weights_(load(options, weights_file(options))),
        colour_(weights_.card.preprocessing.channels == 1 ? models::Colour::kGrey : models::Colour::kRgb),
        classifier_(weights_, device.name(), options.threads.value_or(at::get_num_threads()), options.batch),
        output_(std::cout, options.json ? Output::Form::kJson : Output::Form::kText) {
    weights_.tensors.clear();  // The classifier has its own.
    memory_.give_back_idle();
    summary_.weights = weights_file(options);
  }

  int run() {
    const std::optional<std::int64_t> total = names_->total();
    apps::ProgressBar bar(total.value_or(0));
    std::optional<apps::Stopwatch> watch;
    for (std::int64_t batch = 1;; ++batch) {
      const std::vector<std::string> names = names_->take(static_cast<std::size_t>(options_.batch));
      if (names.empty()) break;
      if (!watch) watch.emplace();
      bar.erase();
      const std::vector<std::string> good = decode(names);
      if (!good.empty()) show(good);
      memory_.end_period(batch);
      summary_.seconds = watch->seconds();
      if (total && bar.due())
        bar.draw(summary_.images + summary_.broken,
                 apps::text("%.1f images/s", summary_.images_per_second()));
    }
    bar.erase();
    summary_.memory = memory_.report(summary_.seconds);
    output_.summary(summary_);
    const bool served = !options_.watch.empty() || !total;
    if (apps::pending_interrupt() != 0 && !served)
      throw apps::Interrupted(apps::pending_interrupt(), "interrupted; the rest was not classified");
    return summary_.broken > 0 ? apps::kExitFailure : 0;
  }

 private:
  // Puts the batch into the classifier; gives the names of those that could be.
  std::vector<std::string> decode(const std::vector<std::string>& names) {
    std::vector<std::string> good;
    for (const std::string& name : names) {
      try {
        classifier_.add(models::read_image(name, colour_), resize_from(options_.resize));
        good.push_back(name);
      } catch (const FileError& error) {
        ++summary_.broken;
        output_.broken(name, error.what());
      }
    }
    return good;
  }

  void show(const std::vector<std::string>& names) {
    const std::int64_t classes = static_cast<std::int64_t>(weights_.card.labels.size());
    const auto [probabilities, indices] =
        classifier_.probabilities().topk(std::min<std::int64_t>(options_.top, classes), 1);
    const auto probability = probabilities.accessor<float, 2>();
    const auto index = indices.accessor<std::int64_t, 2>();
    std::vector<Guess> guesses(static_cast<std::size_t>(probabilities.size(1)));
    for (std::size_t image = 0; image < names.size(); ++image) {
      const auto row = static_cast<std::int64_t>(image);
      for (std::size_t i = 0; i < guesses.size(); ++i) {
        const std::int64_t best = index[row][static_cast<std::int64_t>(i)];
        guesses[i] = {best, weights_.card.labels[static_cast<std::size_t>(best)],
                      probability[row][static_cast<std::int64_t>(i)]};
      }
      output_.image(names[image], guesses);
      ++summary_.images;
    }
  }

  const ClassifyOptions& options_;
  apps::MemorySetup& memory_;
  std::unique_ptr<ImageNames> names_;
  Weights weights_;
  const models::Colour colour_;
  Classifier classifier_;
  Output output_;
  Summary summary_;
};

}  // namespace

int run_classification(const ClassifyOptions& options) {
  const apps::ChosenDevice device = apps::choose_device(options.memory.device);
  apps::MemorySetup memory(device, apps::allocator_options(options.memory, apps::computed_on(device)));
  apps::watch_for_interrupts();
  return apps::with_short_errors([&] { return Run(options, device, memory).run(); });
}

}  // namespace cistern::classify
