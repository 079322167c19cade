// Workload generators: what programs of certain kinds ask of an allocator, as programs for replay. Seeded, free of
// clocks, and the same on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cistern/observe/replay_program.hpp"

namespace cistern::workloads {

/// One number that a workload may be given.
struct Parameter {
  const char* name;
  std::uint64_t value;  ///< Unless told.
  std::uint64_t least;
  std::uint64_t most;
  const char* what;
};

using Settings = std::map<std::string, std::uint64_t, std::less<>>;

struct Workload {
  const char* name;
  const char* why;  ///< One sentence: what it is hard on, and where it is met.
  std::vector<Parameter> parameters;
  ReplayProgram (*make)(const Settings& settings, std::uint64_t seed);  ///< Requires every parameter set, in its bounds.
};

const std::vector<Workload>& all_workloads();

/// The workload with these settings in the place of its own; the program is named after it. All blocks that the
/// workload frees by itself are freed, the rest stays live. Throws std::invalid_argument: no workload or parameter of
/// that name, or a value out of bounds.
ReplayProgram generate(std::string_view name, std::uint64_t seed = 1, const Settings& changed = {});

}  // namespace cistern::workloads
