// One training run, from the options to its result.
#pragma once

#include "apps/train/options.hpp"
#include "apps/train/results.hpp"

namespace cistern::train {

/// Installs the allocator, trains, saves checkpoints. Epoch lines go to stdout, or to stderr under --json.
/// Fails with FileError, apps::Interrupted, or std::runtime_error with the allocator's explanation.
RunResult run_training(const TrainOptions& options);

}  // namespace cistern::train
