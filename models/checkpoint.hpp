// Everything needed to go on training as if never stopped.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/fused_mnist_cnn.hpp"

namespace cistern::models {

/// What the run was asked to do and what its bits depend on: a resumed run keeps these.
struct TrainingSetup {
  std::string loop;
  std::int64_t batch_size = 0;
  double learning_rate = 0.0;
  std::uint64_t seed = 0;
  int threads = 0;
  friend bool operator==(const TrainingSetup&, const TrainingSetup&) = default;
};

/// MnistCnn's parameters in their order, with Adam's moments of each.
struct LearnedState {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> first_moments;
  std::vector<at::Tensor> second_moments;
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

/// Fails with FileError: no checkpoint, damaged, or of another model.
Checkpoint load_checkpoint(const std::filesystem::path& directory);

}  // namespace cistern::models
