// What a person sees while and after training: epoch lines, a progress bar, the memory report, the
// comparison.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/common/stopwatch.hpp"
#include "apps/train/results.hpp"

namespace cistern::train {

struct RunningMeans {
  double loss = 0.0;
  double accuracy = 0.0;
};

/// Progress of one epoch: a bar redrawn at most ten times a second where stderr is a terminal, else nothing.
class ProgressBar {
 public:
  explicit ProgressBar(std::int64_t batches);

  /// True when the next draw is due, so that nobody sums what nobody sees.
  bool due() const;
  void draw(std::int64_t batches_done, const RunningMeans& means);
  void erase();

 private:
  bool visible_;
  std::int64_t batches_;
  apps::Stopwatch watch_;
  double next_draw_ = 0.0;
};

void print_epoch(std::ostream& out, int epoch, int epochs, std::int64_t batches, const EpochResult& result);
void print_report(std::ostream& out, const RunResult& run);

/// One row a strategy, then whether all trained the same weights.
void print_comparison(std::ostream& out, const std::vector<RunResult>& runs);

}  // namespace cistern::train
