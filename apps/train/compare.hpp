// --compare: the same training under several strategies, each in a process of its own.
#pragma once

#include <vector>

#include "apps/train/options.hpp"
#include "apps/train/results.hpp"

namespace cistern::train {

struct Comparison {
  std::vector<RunResult> runs;
  int exit_code =
      0;  ///< Of the first run that failed; it has said why on stderr, and no further run was begun.
};

Comparison compare_strategies(const TrainOptions& options);

}  // namespace cistern::train
