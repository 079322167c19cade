// Everything needed to go on training as if never stopped.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "models/fused_mnist_cnn.hpp"
#include "models/weights_file.hpp"

namespace cistern::models {

/// What the run was asked to do and what its bits depend on: a resumed run keeps these.
struct TrainingSetup {
  std::string loop;
  std::int64_t batch_size = 0;
  double learning_rate = 0.0;
  std::uint64_t seed = 0;
  int threads = 0;
  double learning_rate_decay = 1.0;  ///< The learning rate is multiplied by it after each epoch.
  std::string augmentation = "none";
  ModelCard card;  ///< The network, what it is fed, and its labels.
  friend bool operator==(const TrainingSetup&, const TrainingSetup&) = default;
};

using NamedTensors = std::map<std::string, at::Tensor>;

/// A network's tensors by their names, with Adam's moments of each parameter.
struct LearnedState {
  NamedTensors parameters;
  NamedTensors first_moments;
  NamedTensors second_moments;
  NamedTensors statistics;  ///< Learned without gradients: batch norm's.
  std::int64_t adam_steps = 0;
};

struct Checkpoint {
  TrainingSetup setup;
  LearnedState learned;
  at::Tensor
      generator_state;  ///< As it was when the current epoch began: the epoch's shuffle is drawn from it.
  std::int64_t epochs_done = 0;
  std::int64_t batches_done = 0;  ///< Of the current epoch.
  BatchSums sums;                 ///< Of those batches.
};

/// The file a checkpoint directory holds.
std::filesystem::path checkpoint_file(const std::filesystem::path& directory);

/// Makes the directory if need be and sees that files can be written there. True if it was made.
/// Fails with FileError, so that a wrong name is noticed before the training and not after it.
bool prepare_checkpoint_directory(const std::filesystem::path& directory);

/// Atomic, as write_tensor_file. Fails with FileError.
void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint);

/// Fails with FileError: no checkpoint, damaged, or of another kind.
Checkpoint load_checkpoint(const std::filesystem::path& directory);

/// Fails with FileError where the directory's checkpoint, loaded, lacks a tensor that `wanted` has, or has it in
/// another shape.
void check_tensors(const std::filesystem::path& directory, const LearnedState& loaded, const LearnedState& wanted);

}  // namespace cistern::models
