// What memory a run took: an ordinary value, the same in memory, as JSON and in the printed tables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace cistern::apps {

/// Of one memory: a device's, host memory, pinned host memory.
struct MemoryResult {
  std::string name;
  std::uint64_t requested_bytes = 0, peak_requested_bytes = 0;
  std::uint64_t allocated_bytes = 0, peak_allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0, peak_reserved_bytes = 0;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t allocations = 0;
  std::uint64_t source_calls = 0;
  std::uint64_t source_calls_after_first_period = 0;  ///< The first epoch, or the first batch.
};

struct MemoryReport {
  std::string strategy;
  std::string device;
  std::vector<MemoryResult>
      memories;  ///< The device computed on first; none if its allocator keeps no statistics.
  std::uint64_t peak_rss_bytes = 0;
  // Of the device computed on; absent under strategy "system".
  std::optional<std::map<std::string, std::uint64_t>> served_by_rung;
  std::optional<double>
      time_share;  ///< Of the working time, estimated: allocations times the measured cost of one.
};

/// `period` is what the source calls are counted after the first of: "epoch", "batch".
void print_memory(std::ostream& out, const MemoryReport& report, const std::string& period);

/// An object with the figures of the device computed on, and all memories side by side, and back. Strategy
/// and device are not in it: they stand beside it. Fields that do not apply are null.
nlohmann::json memory_to_json(const MemoryReport& report, const std::string& period);
MemoryReport memory_from_json(const nlohmann::json& object, const std::string& period);

}  // namespace cistern::apps
