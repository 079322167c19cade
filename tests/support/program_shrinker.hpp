// Makes a failing program small enough to read.
#pragma once

#include <cstddef>
#include <functional>

#include "support/program.hpp"

namespace cistern::support {

/// Removes steps, then simplifies numbers and the setup, as long as `fails` stays true. Requires
/// fails(program). Calls `fails` at most `most_attempts` times.
Program shrink(Program program, const std::function<bool(const Program&)>& fails,
               std::size_t most_attempts = 4000);

}  // namespace cistern::support
