// The options about devices and memory that programs with tensors share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/common/device.hpp"
#include "cistern/core/config.hpp"

namespace cistern::apps {

/// A strategy by name; "system" leaves torch's own allocator in place.
inline constexpr const char* kSystem = "system";

/// What sizes are meant for.
enum class ComputedOn { kCpu, kCuda };
ComputedOn computed_on(const ChosenDevice& device);

struct MemoryOptions {
  std::string device = "auto";
  std::optional<std::string> strategy;  ///< growth, geometric, preallocate, plan or system.
  std::optional<Amount> limit;
  std::optional<Amount> preallocate;
  std::string record;
  std::string plan;  ///< What `cistern plan` wrote, for strategy plan.
};

/// What --strategy accepts.
CLI::IsMember strategy_names();

/// Adds --device, --strategy, --limit, --preallocate, --plan and --record; parsing fills `options`, which must
/// outlive the app.
void add_memory_options(CLI::App& app, MemoryOptions& options);

/// What is wrong together, and what is wrong in CISTERN_CONF. Fails with UsageError.
void check_memory_options(const MemoryOptions& options);

/// The allocator's options: CISTERN_CONF, then the command line on top. Nothing for strategy "system". Fails
/// with UsageError, naming the key or the flag.
std::optional<Options> allocator_options(const MemoryOptions& options, ComputedOn device);

/// The arguments that say the same to another process, --record aside; sizes that strategy "system" would
/// refuse, and a preallocation or plan under another strategy, are left out.
std::vector<std::string> arguments_for(const MemoryOptions& options);

}  // namespace cistern::apps
