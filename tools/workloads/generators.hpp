// The generators by name; workloads.cpp says what each is for and which parameters it reads.
#pragma once

#include "workloads/workloads.hpp"

namespace cistern::workloads {

// churn.cpp
ReplayProgram random_allocations(const Settings& settings, std::uint64_t seed);
ReplayProgram large_tensors(const Settings& settings, std::uint64_t seed);

// serving.cpp
ReplayProgram serving_streams(const Settings& settings, std::uint64_t seed);
ReplayProgram growing_kv_cache(const Settings& settings, std::uint64_t seed);
ReplayProgram graph_pools(const Settings& settings, std::uint64_t seed);

// training.cpp
ReplayProgram varying_batches(const Settings& settings, std::uint64_t seed);
ReplayProgram gradient_accumulation(const Settings& settings, std::uint64_t seed);
ReplayProgram pinned_loader(const Settings& settings, std::uint64_t seed);

}  // namespace cistern::workloads
