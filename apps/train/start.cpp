#include "apps/train/start.hpp"

#include <torch/torch.h>

#include <sstream>

#include "apps/train/dataset.hpp"
#include "apps/train/network.hpp"
#include "apps/train/pictures.hpp"
#include "cistern/observe/files.hpp"

namespace cistern::train {
namespace {

using apps::ChosenDevice;
using models::Checkpoint;
using models::LearnedState;
using models::ModelCard;
using models::TrainingSetup;
using models::Weights;

constexpr std::int64_t kLargestSmallPicture = 64;  // Up to here the stem does not halve the sides.

// Data of a data set as the network of a card takes them.
class Data {
 public:
  Data(const TrainOptions& options, const std::string& model)
      : name_(options.dataset), dataset_(find_dataset(options.dataset)) {
    if (model == models::kMnistCnnName) {
      mnist_ = models::load_mnist(dataset_.directory);
    } else {
      pictures_ = open_pictures(dataset_);
    }
  }

  std::vector<std::string> labels() const {
    if (pictures_) return pictures_->labels;
    return dataset_.labels.empty() ? find_dataset(kMnist).labels : dataset_.labels;
  }

  ModelCard card(const TrainOptions& options) const {
    if (!pictures_) return mnist_card(labels());
    ModelCard card;
    card.labels = labels();
    models::Preprocessing& input = card.preprocessing;
    input.size = options.size.value_or(pictures_->side.value_or(input.size));
    input.channels = pictures_->channels;
    input.mean.assign(static_cast<std::size_t>(input.channels), 0.5);
    input.std = input.mean;
    card.network.width = options.width.value_or(card.network.width);
    card.network.classes = static_cast<std::int64_t>(card.labels.size());
    card.network.channels = input.channels;
    card.network.stem_stride = input.size <= kLargestSmallPicture ? 1 : 2;
    return card;
  }

  /// Weights' own card, but with this data's classes where theirs are others.
  ModelCard card(const Weights& weights) const {
    ModelCard card = weights.card;
    card.labels = labels();
    card.network.classes = static_cast<std::int64_t>(card.labels.size());
    card.source_sha256.clear();
    return card;
  }

  void check_classes(const ModelCard& card, const std::string& whose) const {
    if (card.labels.size() == labels().size()) return;
    throw FileError(whose, "tells " + std::to_string(card.labels.size()) + " classes apart; the data set " +
                               name_ + " has " + std::to_string(labels().size()));
  }

  std::unique_ptr<Learner> learner(const TrainingSetup& setup, const LearnedState& start,
                                   at::Device device) const {
    if (pictures_) return make_picture_learner(pictures_, setup, start, device);
    if (setup.loop == kPlainLoop) return make_plain_learner(mnist_, start, device);
    return make_tuned_learner(mnist_, start, setup.batch_size, setup.threads);
  }

 private:
  std::string name_;
  Dataset dataset_;
  models::Mnist mnist_;
  std::shared_ptr<const PictureSets> pictures_;
};

TrainingSetup setup_from(const TrainOptions& options, const ModelCard& card, const ChosenDevice& device) {
  const bool mnist_cnn = card.model == models::kMnistCnnName;
  const char* loop = mnist_cnn && !device.cuda_index ? kTunedLoop : kPlainLoop;
  return {options.loop.value_or(loop),
          options.batch_size.value_or(32),
          options.learning_rate.value_or(1e-3),
          options.seed.value_or(0),
          options.threads.value_or(at::get_num_threads()),
          options.learning_rate_decay.value_or(1.0),
          options.augmentation.value_or(mnist_cnn ? "none" : "crop,flip"),
          card};
}

// What the command line says must be what the checkpoint was made with, else the bits would differ.
void check_agreement(const TrainOptions& options, const TrainingSetup& saved, const std::string& file) {
  const auto check = [&](const char* flag, const auto& given, const auto& kept) {
    if (!given || *given == kept) return;
    std::ostringstream message;
    message << "was trained with " << flag << ' ' << kept << ", not " << *given << "; leave " << flag
            << " out to go on, or train anew in another directory";
    throw FileError(file, message.str());
  };
  check("--model", options.model, saved.card.model);
  check("--loop", options.loop, saved.loop);
  check("--batch-size", options.batch_size, saved.batch_size);
  check("--lr", options.learning_rate, saved.learning_rate);
  check("--lr-decay", options.learning_rate_decay, saved.learning_rate_decay);
  check("--seed", options.seed, saved.seed);
  check("--threads", options.threads, saved.threads);
  check("--width", options.width, saved.card.network.width);
  check("--size", options.size, saved.card.preprocessing.size);
  check("--augment", options.augmentation, saved.augmentation);
}

Start resume(const TrainOptions& options, const ChosenDevice& device, const at::Generator& generator) {
  const std::string file = models::checkpoint_file(options.checkpoint).string();
  Checkpoint checkpoint = models::load_checkpoint(options.checkpoint);
  const TrainingSetup& setup = checkpoint.setup;
  check_agreement(options, setup, file);
  models::check_tensors(options.checkpoint, checkpoint.learned, initial_state(setup.card, generator));
  if (device.cuda_index && setup.loop == kTunedLoop)
    throw FileError(file,
                    "was trained with --loop tuned, which is code for the CPU; go on with --device cpu");
  const Data data(options, setup.card.model);
  data.check_classes(setup.card, file);
  auto learner = data.learner(setup, checkpoint.learned, device.name());
  return {std::move(checkpoint), std::move(learner)};
}

}  // namespace

Start prepare_training(const TrainOptions& options, const ChosenDevice& device, at::Generator& generator) {
  if (options.resume) return resume(options, device, generator);
  std::optional<Weights> weights;
  if (!options.weights.empty()) weights = models::read_weights(options.weights);
  if (weights && options.model && *options.model != weights->card.model)
    throw FileError(options.weights, "is of " + weights->card.model + ", not of " + *options.model);
  const Data data(options, weights ? weights->card.model : options.model.value_or(models::kMnistCnnName));
  if (weights && weights->card.model == models::kMnistCnnName)
    data.check_classes(weights->card, options.weights);

  Checkpoint start;
  start.setup = setup_from(options, weights ? data.card(*weights) : data.card(options), device);
  generator.set_current_seed(start.setup.seed);
  start.learned = weights ? state_from(*weights, start.setup.card, generator)
                          : initial_state(start.setup.card, generator);
  start.generator_state = generator.get_state();
  auto learner = data.learner(start.setup, start.learned, device.name());
  return {std::move(start), std::move(learner)};
}

std::unique_ptr<Learner> prepare_evaluation(const Weights& weights, const TrainOptions& options,
                                            const ChosenDevice& device) {
  const Data data(options, weights.card.model);
  data.check_classes(weights.card, options.evaluate);
  const TrainingSetup setup = setup_from(options, weights.card, device);
  return data.learner(setup, state_from(weights, weights.card, at::detail::createCPUGenerator()),
                      device.name());
}

}  // namespace cistern::train
