// What the command line of cistern-classify says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/common/memory_options.hpp"

namespace cistern::classify {

struct ClassifyOptions {
  std::vector<std::string> inputs;  ///< Images, folders, lists (*.txt), "-": a list on stdin.
  std::string weights;              ///< Empty: the shipped ones.
  std::string labels;               ///< Empty: the weights' own.
  std::string watch;                ///< A folder to serve; empty: none.
  int top = 5;
  int batch = 8;
  std::optional<int> threads;
  std::string resize = "bilinear";
  apps::MemoryOptions memory;
  bool json = false;
};

/// Adds the options to `app`; parsing fills `options`, which must outlive it.
void add_options(CLI::App& app, ClassifyOptions& options);

/// What options are wrong together. Fails with UsageError.
void check_options(const ClassifyOptions& options);

}  // namespace cistern::classify
