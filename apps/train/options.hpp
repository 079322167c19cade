// What the command line of cistern-train says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cistern/core/config.hpp"

namespace cistern::train {

/// A strategy by name; "system" leaves torch's own allocator in place.
inline constexpr const char* kSystem = "system";

/// The loops (learner.hpp).
inline constexpr const char* kTunedLoop = "tuned";
inline constexpr const char* kPlainLoop = "plain";

/// What sizes are meant for.
enum class TrainedOn { kCpu, kCuda };

struct TrainOptions {
  std::string data;
  int epochs = 10;
  std::string device = "auto";
  // What a checkpoint also holds: on --resume its values count, and one given here must agree.
  std::optional<std::string> loop;
  std::optional<std::int64_t> batch_size;
  std::optional<double> learning_rate;
  std::optional<std::uint64_t> seed;
  std::optional<int> threads;

  std::optional<std::string> strategy;  ///< growth, geometric, preallocate or system.
  std::optional<Amount> limit;
  std::optional<Amount> preallocate;
  std::vector<std::string> compare;
  std::string checkpoint;
  bool resume = false;
  std::string record;
  bool json = false;
};

/// Adds the options to `app`; parsing fills `options`, which must outlive it.
void add_options(CLI::App& app, TrainOptions& options);

/// The allocator's options: CISTERN_CONF, then the command line on top. Nothing for strategy "system".
/// Fails with UsageError, naming the key or the flag.
std::optional<Options> allocator_options(const TrainOptions& options, TrainedOn device);

/// What options are wrong together. Fails with UsageError.
void check_options(const TrainOptions& options);

/// The command line for a run of its own under `strategy`, which prints JSON.
std::vector<std::string> arguments_for(const TrainOptions& options, const std::string& strategy);

}  // namespace cistern::train
