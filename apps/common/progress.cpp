#include "apps/common/progress.hpp"

#include <unistd.h>

#include <iostream>

#include "apps/common/text.hpp"

namespace cistern::apps {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::int64_t steps) : visible_(isatty(STDERR_FILENO) == 1), steps_(steps) {}

bool ProgressBar::due() const {
  return visible_ && watch_.seconds() >= next_draw_;
}

void ProgressBar::draw(std::int64_t steps_done, const std::string& figures) {
  next_draw_ = watch_.seconds() + kRedrawSeconds;
  const auto filled = static_cast<std::size_t>(kBarWidth * steps_done / steps_);
  const double left =
      watch_.seconds() / static_cast<double>(steps_done) * static_cast<double>(steps_ - steps_done);
  const std::string bar = std::string(filled, '=') + '>' + std::string(kBarWidth - filled, '.');
  std::cerr << text("\r%lld/%lld [%s] - ETA: %.0fs - ", static_cast<long long>(steps_done),
                    static_cast<long long>(steps_), bar.c_str(), left)
            << figures << ' ' << std::flush;
}

void ProgressBar::erase() {
  if (visible_) std::cerr << "\r\033[K" << std::flush;
}

}  // namespace cistern::apps
