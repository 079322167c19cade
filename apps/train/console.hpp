// What a person sees while and after training: epoch lines, a progress bar, the memory report, the
// comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

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
  using Clock = std::chrono::steady_clock;

  bool visible_;
  std::int64_t batches_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

void print_epoch(std::ostream& out, int epoch, int epochs, std::int64_t batches, const EpochResult& result);
void print_report(std::ostream& out, const RunResult& run);

/// One row a strategy, then whether all trained the same weights.
void print_comparison(std::ostream& out, const std::vector<RunResult>& runs);

}  // namespace cistern::train
