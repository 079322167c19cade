// Runs a program against a real allocator over simulated memory and hand-operated streams, and holds it to
// its promises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cistern/core/stats.hpp"
#include "support/program.hpp"

namespace cistern::support {

struct Outcome {
  std::optional<std::string> violation;  ///< The first broken promise, with the step that broke it.
  std::uint64_t step_count = 0;          ///< Steps taken.
  std::array<std::uint64_t, kRungCount> served{};
  SourceCalls source_calls;
  std::uint64_t event_count = 0;
  std::uint64_t wait_count = 0;
};

/// Runs in this process: a failed ASSERT or audit ends it.
Outcome run_program(const Program& program);

/// Runs in a child process, so that an abort, a sanitizer's report or an endless loop is a violation like any
/// other, whose text is what the child wrote on stderr. Requires that this process has one thread.
Outcome run_isolated(const Program& program, unsigned timeout_s = 60);

}  // namespace cistern::support
