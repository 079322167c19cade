// What a training begins with: a network with its data, new, from weights or from a checkpoint.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>

#include "apps/common/device.hpp"
#include "apps/train/learner.hpp"
#include "apps/train/options.hpp"

namespace cistern::train {

struct Start {
  models::Checkpoint progress;
  std::unique_ptr<Learner> learner;
};

/// Seeds the generator, or it is set anew from progress.generator_state. Fails with FileError: data, weights
/// or checkpoint that cannot be read, do not fit each other, or contradict the options.
Start prepare_training(const TrainOptions& options, const apps::ChosenDevice& device,
                       at::Generator& generator);

/// With these weights and the data set's test images. Fails with FileError.
std::unique_ptr<Learner> prepare_evaluation(const models::Weights& weights, const TrainOptions& options,
                                            const apps::ChosenDevice& device);

}  // namespace cistern::train
