#include "apps/train/trainer.hpp"

#include <torch/torch.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "apps/common/cli.hpp"
#include "apps/common/interrupt.hpp"
#include "apps/common/memory_setup.hpp"
#include "apps/common/progress.hpp"
#include "apps/common/stopwatch.hpp"
#include "apps/common/text.hpp"
#include "apps/common/torch_errors.hpp"
#include "apps/train/console.hpp"
#include "apps/train/network.hpp"
#include "apps/train/start.hpp"
#include "cistern/observe/files.hpp"
#include "models/sha256.hpp"

namespace cistern::train {
namespace {

namespace fs = std::filesystem;
using models::BatchSums;
using models::Checkpoint;
using models::TrainingSetup;

std::string weights_sha256(const models::LearnedState& learned) {
  models::Sha256 hash;
  for (const models::NamedTensors* part : {&learned.parameters, &learned.statistics}) {
    for (const auto& [name, tensor] : *part) hash.update(tensor.const_data_ptr(), tensor.nbytes());
  }
  return hash.finish();
}

// Makes the checkpoint directory before hours are spent, and takes it away again if nothing came of it.
class CheckpointDirectory {
 public:
  CheckpointDirectory(const std::string& path, bool resume) : path_(path) {
    if (path_.empty()) return;
    if (!resume && fs::exists(models::checkpoint_file(path_))) {
      throw FileError(path,
                      "already holds a checkpoint; add --resume to go on with it, or name another directory");
    }
    made_ = models::prepare_checkpoint_directory(path_);
  }
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;
  ~CheckpointDirectory() {
    std::error_code ignored;
    if (made_) fs::remove(path_, ignored);  // Removes an empty directory only.
  }

 private:
  fs::path path_;
  bool made_ = false;
};

// So that a wrong name is noticed before the training and not after it.
void check_writable(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw FileError(file.string(), std::string("cannot be written: ") + std::strerror(errno));
}

class Training {
 public:
  Training(const TrainOptions& options, const apps::ChosenDevice& device, apps::MemorySetup& memory)
      : options_(options),
        chosen_(device),
        memory_(memory),
        out_(options.json ? std::cerr : std::cout),
        generator_(at::detail::createCPUGenerator()) {
    at::globalContext().setDeterministicCuDNN(
        true);  // The same weights under every strategy, and after --resume.
    Start start = prepare_training(options, device, generator_);
    progress_ = std::move(start.progress);
    learner_ = std::move(start.learner);
    at::set_num_threads(progress_.setup.threads);
    const std::int64_t images = learner_->training_images();
    batch_size_ = std::min(progress_.setup.batch_size, images);
    batches_ = (images + batch_size_ - 1) / batch_size_;
  }

  RunResult run() {
    std::cerr << "device: " << chosen_.name() << " (" << chosen_.reason << "), " << progress_.setup.threads
              << (progress_.setup.threads == 1 ? " thread, " : " threads, ") << progress_.setup.loop
              << " loop" << std::endl;
    while (progress_.epochs_done < options_.epochs) {
      result_.epochs.push_back(train_epoch());
      memory_.end_period(progress_.epochs_done);
      print_epoch(out_, static_cast<int>(progress_.epochs_done), options_.epochs, batches_,
                  result_.epochs.back());
    }
    return finish();
  }

 private:
  EpochResult train_epoch() {
    EpochResult epoch;
    const std::uint64_t faults_before = apps::page_faults();
    const apps::Stopwatch watch;
    train_batches();
    const BatchSums training = learner_->sums();
    epoch.seconds = watch.seconds();
    const BatchSums validation = learner_->evaluate();
    epoch.validation_seconds = watch.seconds() - epoch.seconds;
    epoch.page_faults = apps::page_faults() - faults_before;
    epoch.loss = training.mean_loss(), epoch.accuracy = training.accuracy();
    epoch.validation_loss = validation.mean_loss(), epoch.validation_accuracy = validation.accuracy();
    ++progress_.epochs_done;
    progress_.batches_done = 0;
    progress_.sums = {};
    progress_.generator_state = generator_.get_state();
    save();
    return epoch;
  }

  // From progress_.batches_done to the end of the epoch.
  void train_batches() {
    const std::int64_t images = learner_->training_images();
    const TrainingSetup& setup = progress_.setup;
    generator_.set_state(progress_.generator_state);
    learner_->begin_epoch({progress_.epochs_done,
                           setup.learning_rate * std::pow(setup.learning_rate_decay,
                                                          static_cast<double>(progress_.epochs_done)),
                           at::randperm(images, generator_, at::kLong)});
    learner_->set_sums(progress_.sums);
    apps::ProgressBar bar(batches_);
    for (std::int64_t batch = progress_.batches_done; batch < batches_; ++batch) {
      const std::int64_t first = batch * batch_size_;
      learner_->train_batch(first, std::min(batch_size_, images - first));
      progress_.batches_done = batch + 1;
      if (apps::pending_interrupt() != 0) {
        bar.erase();
        stop(apps::pending_interrupt());
      }
      if (!bar.due()) continue;
      const BatchSums sums = learner_->sums();
      bar.draw(batch + 1, apps::text("loss: %.4f - accuracy: %.4f", sums.mean_loss(), sums.accuracy()));
    }
    bar.erase();
  }

  void save() {
    if (options_.checkpoint.empty()) return;
    progress_.learned = learner_->state();
    models::save_checkpoint(options_.checkpoint, progress_);
  }

  [[noreturn]] void stop(int signal) {
    progress_.sums = learner_->sums();
    save();
    std::ostringstream message;
    message << "interrupted in epoch " << progress_.epochs_done + 1 << " after " << progress_.batches_done
            << " of " << batches_ << " batches; ";
    if (options_.checkpoint.empty()) {
      message << "nothing was saved (--checkpoint DIR would have)";
    } else {
      message << "saved. Go on with: cistern-train --resume --checkpoint " << options_.checkpoint
              << " --epochs " << options_.epochs;
    }
    throw apps::Interrupted(signal, message.str());
  }

  RunResult finish() {
    const TrainingSetup& setup = progress_.setup;
    result_.model = setup.card.model, result_.loop = setup.loop, result_.batch_size = setup.batch_size;
    result_.seed = setup.seed, result_.threads = setup.threads;
    double seconds = 0.0;
    for (const EpochResult& epoch : result_.epochs) seconds += epoch.seconds + epoch.validation_seconds;
    if (result_.epochs.empty()) {  // Resumed with nothing left to train.
      const BatchSums validation = learner_->evaluate();
      result_.validation_loss = validation.mean_loss(), result_.validation_accuracy = validation.accuracy();
    } else {
      result_.validation_loss = result_.epochs.back().validation_loss;
      result_.validation_accuracy = result_.epochs.back().validation_accuracy;
    }
    const models::LearnedState learned = learner_->state();
    result_.weights_sha256 = weights_sha256(learned);
    if (!options_.save.empty()) models::write_weights(options_.save, weights_from(learned, named_card()));
    result_.memory = memory_.report(seconds);
    return result_;
  }

  models::ModelCard named_card() const {
    models::ModelCard card = progress_.setup.card;
    const std::string trained = apps::text(
        "cistern-train --dataset %s, %lld epochs, batch %lld, seed %llu", options_.dataset.c_str(),
        static_cast<long long>(progress_.epochs_done), static_cast<long long>(progress_.setup.batch_size),
        static_cast<unsigned long long>(progress_.setup.seed));
    card.origin = (card.origin.empty() ? "" : card.origin + "; then ") + trained;
    return card;
  }

  const TrainOptions& options_;
  const apps::ChosenDevice& chosen_;
  apps::MemorySetup& memory_;
  std::ostream& out_;
  at::Generator generator_;
  Checkpoint progress_;
  std::unique_ptr<Learner> learner_;
  std::int64_t batch_size_ = 0;
  std::int64_t batches_ = 0;
  RunResult result_;
};

}  // namespace

RunResult run_training(const TrainOptions& options) {
  const apps::ChosenDevice device = apps::choose_device(
      options.memory.device, options.loop == kTunedLoop ? "the tuned loop is code for the CPU" : "");
  if (!options.save.empty()) check_writable(options.save);
  const CheckpointDirectory directory(options.checkpoint, options.resume);
  apps::MemorySetup memory(device, apps::allocator_options(options.memory, apps::computed_on(device)));
  apps::watch_for_interrupts();
  return apps::with_short_errors([&] { return Training(options, device, memory).run(); });
}

}  // namespace cistern::train
