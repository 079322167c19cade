// Makes a failing program small enough to read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "cistern/base/units.hpp"

namespace cistern::support {

/// Of any program that is valid whatever is taken from its steps, with these operands of a step.
template <class Program, class Operand>
class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails,
           std::initializer_list<Operand> operands, std::size_t most_attempts)
      : best_(std::move(program)), fails_(fails), operands_(operands), attempts_left_(most_attempts) {}

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
    for (const Operand operand : operands_) {
      while (simplify_operand(at, operand)) {
      }
    }
  }

  bool simplify_operand(std::size_t at, Operand operand) {
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
  const std::vector<Operand> operands_;
  std::size_t attempts_left_;
};

/// Removes steps, then simplifies their numbers, as long as `fails` stays true. Requires fails(program).
/// Calls `fails` at most `most_attempts` times.
template <class Program, class Operand>
Program shrink(Program program, const std::type_identity_t<std::function<bool(const Program&)>>& fails,
               std::initializer_list<Operand> operands, std::size_t most_attempts = 4000) {
  return Shrinker<Program, Operand>(std::move(program), fails, operands, most_attempts).shrink();
}

}  // namespace cistern::support
