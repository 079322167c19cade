// What one run brought: an ordinary value, the same in memory, as JSON and in the printed tables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cistern::train {

/// Of one memory: a device's, host memory, pinned host memory.
struct MemoryResult {
  std::string name;
  std::uint64_t requested_bytes = 0, peak_requested_bytes = 0;
  std::uint64_t allocated_bytes = 0, peak_allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0, peak_reserved_bytes = 0;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t allocations = 0;
  std::uint64_t source_calls = 0;
  std::uint64_t source_calls_after_first_epoch = 0;
};

struct EpochResult {
  double loss = 0.0, accuracy = 0.0;
  double validation_loss = 0.0, validation_accuracy = 0.0;
  double seconds = 0.0;  ///< Of training, without validation.
  double validation_seconds = 0.0;
  std::uint64_t page_faults = 0;
};

struct RunResult {
  std::string strategy;
  std::string device;
  std::string loop;
  std::int64_t batch_size = 0;
  std::uint64_t seed = 0;
  int threads = 0;
  std::vector<EpochResult> epochs;                          ///< Those that this process trained.
  double validation_loss = 0.0, validation_accuracy = 0.0;  ///< Of the final weights.
  std::string weights_sha256;
  std::uint64_t peak_rss_bytes = 0;
  std::vector<MemoryResult>
      memories;  ///< The device trained on first; none if its allocator keeps no statistics.
  // Of the device trained on; absent under strategy "system".
  std::optional<std::map<std::string, std::uint64_t>> served_by_rung;
  std::optional<double>
      time_share;  ///< Of the training's time, estimated: allocations times the measured cost of one.

  double median_epoch_seconds() const;
};

/// Whether all runs ended with the same weights.
bool same_weights(const std::vector<RunResult>& runs);

/// The object that --json prints, and back. Fields that do not apply are null.
std::string json_text(const std::vector<RunResult>& runs);
std::vector<RunResult> runs_from_json(const std::string& text);

}  // namespace cistern::train
