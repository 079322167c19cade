// What the command line of cistern-train says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/common/memory_options.hpp"

namespace cistern::train {

/// The loops (learner.hpp).
inline constexpr const char* kTunedLoop = "tuned";
inline constexpr const char* kPlainLoop = "plain";

struct TrainOptions {
  std::string dataset = "mnist";
  int epochs = 10;
  // What a checkpoint also holds: on --resume its values count, and one given here must agree.
  std::optional<std::string> model;
  std::optional<std::string> loop;
  std::optional<std::int64_t> batch_size;
  std::optional<double> learning_rate;
  std::optional<double> learning_rate_decay;
  std::optional<std::uint64_t> seed;
  std::optional<int> threads;
  // Of mobilenet_v2.
  std::optional<double> width;
  std::optional<std::int64_t> size;
  std::optional<std::string> augmentation;

  apps::MemoryOptions memory;
  std::vector<std::string> compare;
  std::string weights;   ///< To start from.
  std::string save;      ///< Where trained weights go.
  std::string evaluate;  ///< Weights to measure instead of training.
  std::string checkpoint;
  bool resume = false;
  bool json = false;
};

/// Adds the options to `app`; parsing fills `options`, which must outlive it.
void add_options(CLI::App& app, TrainOptions& options);

/// What options are wrong together. Fails with UsageError.
void check_options(const TrainOptions& options);

/// The command line for a run of its own under `strategy`, which prints JSON.
std::vector<std::string> arguments_for(const TrainOptions& options, const std::string& strategy);

}  // namespace cistern::train
