// What a person sees while and after training: epoch lines, the memory report, the comparison.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "apps/train/results.hpp"

namespace cistern::train {

void print_epoch(std::ostream& out, int epoch, int epochs, std::int64_t batches, const EpochResult& result);
void print_report(std::ostream& out, const RunResult& run);

/// One row a strategy, then whether all trained the same weights.
void print_comparison(std::ostream& out, const std::vector<RunResult>& runs);

}  // namespace cistern::train
