#include "support/program_shrinker.hpp"

#include <algorithm>
#include <utility>

namespace cistern::support {
namespace {

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails, std::size_t most_attempts)
      : best_(std::move(program)), fails_(fails), attempts_left_(most_attempts) {}

  Program shrink() {
    remove_steps();
    for (std::size_t i = 0; i < best_.steps.size(); ++i) simplify_step(i);
    remove_steps();
    return std::move(best_);
  }

 private:
  bool keep_if_failing(Program candidate) {
    if (attempts_left_ == 0) return false;
    --attempts_left_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  /// Halves, quarters, ... single steps; from the end, where what follows the failure is.
  void remove_steps() {
    for (std::size_t chunk = std::max<std::size_t>(best_.steps.size() / 2, 1);; chunk /= 2) {
      for (std::size_t end = best_.steps.size(); end != 0;) {
        const std::size_t begin = end - std::min(chunk, end);
        Program candidate = best_;
        candidate.steps.erase(candidate.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                              candidate.steps.begin() + static_cast<std::ptrdiff_t>(end));
        keep_if_failing(std::move(candidate));
        end = begin;
      }
      if (chunk == 1) return;
    }
  }

  void simplify_step(std::size_t at) {
    for (std::uint64_t Step::*operand : {&Step::a, &Step::b, &Step::c, &Step::d}) {
      while (simplify_operand(at, operand)) {
      }
    }
  }

  bool simplify_operand(std::size_t at, std::uint64_t Step::*operand) {
    const std::uint64_t value = best_.steps[at].*operand;
    for (const std::uint64_t simpler :
         {std::uint64_t{0}, std::uint64_t{1}, round_down(value, kMiB), value / 2}) {
      if (simpler >= value) continue;
      Program candidate = best_;
      candidate.steps[at].*operand = simpler;
      if (keep_if_failing(std::move(candidate))) return true;
    }
    return false;
  }

  Program best_;
  const std::function<bool(const Program&)>& fails_;
  std::size_t attempts_left_;
};

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails, std::size_t most_attempts) {
  return Shrinker(std::move(program), fails, most_attempts).shrink();
}

}  // namespace cistern::support
