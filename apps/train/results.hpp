// What one run brought: an ordinary value, the same in memory, as JSON and in the printed tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/memory_report.hpp"

namespace cistern::train {

struct EpochResult {
  double loss = 0.0, accuracy = 0.0;
  double validation_loss = 0.0, validation_accuracy = 0.0;
  double seconds = 0.0;  ///< Of training, without validation.
  double validation_seconds = 0.0;
  std::uint64_t page_faults = 0;
};

struct RunResult {
  std::string model;
  std::string loop;
  std::int64_t batch_size = 0;
  std::uint64_t seed = 0;
  int threads = 0;
  std::vector<EpochResult> epochs;                          ///< Those that this process trained.
  double validation_loss = 0.0, validation_accuracy = 0.0;  ///< Of the final weights.
  std::string weights_sha256;
  apps::MemoryReport memory;

  double median_epoch_seconds() const;
};

/// Whether all runs ended with the same weights.
bool same_weights(const std::vector<RunResult>& runs);

/// The object that --json prints, and back. Fields that do not apply are null.
std::string json_text(const std::vector<RunResult>& runs);
std::vector<RunResult> runs_from_json(const std::string& text);

}  // namespace cistern::train
