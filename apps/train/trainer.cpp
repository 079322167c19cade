#include "apps/train/trainer.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <iostream>
#include <sstream>

#include "apps/common/cli.hpp"
#include "apps/common/interrupt.hpp"
#include "apps/common/stopwatch.hpp"
#include "apps/train/console.hpp"
#include "apps/train/device.hpp"
#include "apps/train/learner.hpp"
#include "apps/train/memory_setup.hpp"
#include "cistern/observe/files.hpp"
#include "models/checkpoint.hpp"
#include "models/sha256.hpp"

namespace cistern::train {
namespace {

namespace fs = std::filesystem;
using models::BatchSums;
using models::Checkpoint;
using models::LabelledImages;
using models::TrainingSetup;

TrainingSetup setup_from(const TrainOptions& options, const ChosenDevice& device) {
  return {options.loop.value_or(device.cuda_index ? kPlainLoop : kTunedLoop), options.batch_size.value_or(32),
          options.learning_rate.value_or(1e-3), options.seed.value_or(0),
          options.threads.value_or(at::get_num_threads())};
}

// What the command line says must be what the checkpoint was made with, else the bits would differ.
void check_agreement(const TrainOptions& options, const TrainingSetup& saved) {
  const auto check = [&](const char* flag, const auto& given, const auto& kept) {
    if (!given || *given == kept) return;
    std::ostringstream message;
    message << "was trained with " << flag << ' ' << kept << ", not " << *given << "; leave " << flag
            << " out to go on, or train anew in another directory";
    throw FileError(models::checkpoint_file(options.checkpoint).string(), message.str());
  };
  check("--loop", options.loop, saved.loop);
  check("--batch-size", options.batch_size, saved.batch_size);
  check("--lr", options.learning_rate, saved.learning_rate);
  check("--seed", options.seed, saved.seed);
  check("--threads", options.threads, saved.threads);
}

Checkpoint start_of_training(const TrainOptions& options, const ChosenDevice& device,
                             at::Generator& generator) {
  if (options.resume) {
    Checkpoint checkpoint = models::load_checkpoint(options.checkpoint);
    check_agreement(options, checkpoint.setup);
    if (device.cuda_index && checkpoint.setup.loop == kTunedLoop) {
      throw FileError(models::checkpoint_file(options.checkpoint).string(),
                      "was trained with --loop tuned, which is code for the CPU; go on with --device cpu");
    }
    return checkpoint;
  }
  Checkpoint checkpoint;
  checkpoint.setup = setup_from(options, device);
  generator.set_current_seed(checkpoint.setup.seed);
  checkpoint.learned = initial_state(generator);
  checkpoint.generator_state = generator.get_state();
  return checkpoint;
}

std::unique_ptr<Learner> make_learner(const Checkpoint& start, at::Device device) {
  const TrainingSetup& setup = start.setup;
  if (setup.loop == kPlainLoop) return make_plain_learner(start.learned, setup.learning_rate, device);
  return make_tuned_learner(start.learned, setup.learning_rate, setup.batch_size, setup.threads);
}

std::string weights_sha256(const std::vector<at::Tensor>& parameters) {
  models::Sha256 hash;
  for (const at::Tensor& parameter : parameters) hash.update(parameter.const_data_ptr(), parameter.nbytes());
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

class Training {
 public:
  Training(const TrainOptions& options, const ChosenDevice& device, MemorySetup& memory)
      : options_(options),
        chosen_(device),
        device_(device.name()),
        memory_(memory),
        out_(options.json ? std::cerr : std::cout),
        generator_(at::detail::createCPUGenerator()),
        progress_(start_of_training(options, device, generator_)) {
    at::set_num_threads(progress_.setup.threads);
    at::globalContext().setDeterministicCuDNN(
        true);  // The same weights under every strategy, and after --resume.
    data_ = models::load_mnist(options.data);
    for (LabelledImages* part : {&data_.train, &data_.test}) {
      part->images = part->images.to(device_);
      part->labels = part->labels.to(device_);
    }
    const std::int64_t images = data_.train.images.size(0);
    batch_size_ = std::min(progress_.setup.batch_size, images);
    batches_ = (images + batch_size_ - 1) / batch_size_;
    learner_ = make_learner(progress_, device_);
  }

  RunResult run() {
    std::cerr << "device: " << chosen_.name() << " (" << chosen_.reason << "), " << progress_.setup.threads
              << (progress_.setup.threads == 1 ? " thread, " : " threads, ") << progress_.setup.loop
              << " loop" << std::endl;
    while (progress_.epochs_done < options_.epochs) {
      result_.epochs.push_back(train_epoch());
      memory_.end_epoch(progress_.epochs_done);
      print_epoch(out_, static_cast<int>(progress_.epochs_done), options_.epochs, batches_,
                  result_.epochs.back());
    }
    return finish();
  }

 private:
  EpochResult train_epoch() {
    EpochResult epoch;
    const std::uint64_t faults_before = page_faults();
    const apps::Stopwatch watch;
    train_batches();
    const BatchSums training = learner_->sums();
    epoch.seconds = watch.seconds();
    const BatchSums validation = learner_->evaluate(data_.test);
    epoch.validation_seconds = watch.seconds() - epoch.seconds;
    epoch.page_faults = page_faults() - faults_before;
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
    const std::int64_t images = data_.train.images.size(0);
    generator_.set_state(progress_.generator_state);
    const at::Tensor order = moved(at::randperm(images, generator_, at::kLong));
    learner_->set_sums(progress_.sums);
    ProgressBar bar(batches_);
    for (std::int64_t batch = progress_.batches_done; batch < batches_; ++batch) {
      const std::int64_t first = batch * batch_size_;
      learner_->train_batch(data_.train, order.narrow(0, first, std::min(batch_size_, images - first)));
      progress_.batches_done = batch + 1;
      if (apps::pending_interrupt() != 0) {
        bar.erase();
        stop(apps::pending_interrupt());
      }
      if (!bar.due()) continue;
      const BatchSums sums = learner_->sums();
      bar.draw(batch + 1, {sums.mean_loss(), sums.accuracy()});
    }
    bar.erase();
  }

  // Once an epoch, and from pinned memory, so that the device need not be waited for.
  at::Tensor moved(const at::Tensor& order) const {
    return device_.is_cpu() ? order : order.pin_memory().to(device_, /*non_blocking=*/true);
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
    result_.loop = setup.loop, result_.batch_size = setup.batch_size;
    result_.seed = setup.seed, result_.threads = setup.threads;
    double seconds = 0.0;
    for (const EpochResult& epoch : result_.epochs) seconds += epoch.seconds + epoch.validation_seconds;
    if (result_.epochs.empty()) {  // Resumed with nothing left to train.
      const BatchSums validation = learner_->evaluate(data_.test);
      result_.validation_loss = validation.mean_loss(), result_.validation_accuracy = validation.accuracy();
    } else {
      result_.validation_loss = result_.epochs.back().validation_loss;
      result_.validation_accuracy = result_.epochs.back().validation_accuracy;
    }
    result_.weights_sha256 = weights_sha256(learner_->state().parameters);
    memory_.describe(result_, seconds);
    return result_;
  }

  const TrainOptions& options_;
  const ChosenDevice& chosen_;
  const at::Device device_;
  MemorySetup& memory_;
  std::ostream& out_;
  at::Generator generator_;
  Checkpoint progress_;
  models::Mnist data_;
  std::unique_ptr<Learner> learner_;
  std::int64_t batch_size_ = 0;
  std::int64_t batches_ = 0;
  RunResult result_;
};

}  // namespace

RunResult run_training(const TrainOptions& options) {
  const ChosenDevice device = choose_device(options);
  const CheckpointDirectory directory(options.checkpoint, options.resume);
  const std::optional<Options> allocator =
      allocator_options(options, device.cuda_index ? TrainedOn::kCuda : TrainedOn::kCpu);
  MemorySetup memory(device, allocator);
  apps::watch_for_interrupts();
  try {
    RunResult result = Training(options, device, memory).run();
    result.strategy = allocator ? strategy_name(allocator->strategy) : kSystem;
    return result;
  } catch (const c10::Error& error) {
    // Without the backtrace that torch appends: the allocator's explanation is complete.
    std::string message = error.what_without_backtrace();
    message.erase(message.find_last_not_of('\n') + 1);
    throw std::runtime_error(message);
  }
}

}  // namespace cistern::train
