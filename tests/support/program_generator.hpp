// Random programs from a seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/program.hpp"

namespace cistern::support {

/// A setup drawn from all strategies, trim policies, sources, stream and pool counts, and steps that suit it:
/// phases that grow, churn and shrink, sizes from one byte to beyond the limit, and now and then something
/// nasty.
Program generate_program(std::uint64_t seed, std::size_t step_count);

}  // namespace cistern::support
