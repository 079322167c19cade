// One program through torch's native allocator and through ours, step by step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda_torch/differential_program.hpp"

namespace cistern::support {

struct Comparison {
  std::string violation;  ///< The first thing that must not be, and the step; empty if there was none.
  struct Counts {
    std::uint64_t steps = 0;
    std::array<std::uint64_t, 12> done{};  ///< Of each DeviceOp, those that made sense at that point.
    std::uint64_t both_served = 0;
    std::uint64_t neither_served = 0;
    std::uint64_t native_only = 0;
    std::uint64_t ours_only = 0;
    std::uint64_t fractions_refused = 0;  ///< By ours, as more was in use.
    std::size_t native_peak_bytes = 0;    ///< Reserved; until the first request that only one of both served.
    std::size_t our_peak_bytes = 0;
  } counts;
};

/// In a child process, as torch's allocator is one of a process. Requires that this process has one thread
/// and has not called the CUDA runtime.
Comparison compare_with_native(const DeviceProgram& program);

}  // namespace cistern::support
