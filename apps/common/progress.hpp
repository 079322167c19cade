// A progress bar for people who look.
#pragma once

#include <cstdint>
#include <string>

#include "apps/common/stopwatch.hpp"

namespace cistern::apps {

/// Redrawn at most ten times a second where stderr is a terminal, else nothing.
class ProgressBar {
 public:
  explicit ProgressBar(std::int64_t steps);

  /// True when the next draw is due, so that nobody sums what nobody sees.
  bool due() const;
  /// `figures` stand after the time that is left.
  void draw(std::int64_t steps_done, const std::string& figures);
  void erase();

 private:
  bool visible_;
  std::int64_t steps_;
  Stopwatch watch_;
  double next_draw_ = 0.0;
};

}  // namespace cistern::apps
