#include "cistern/observe/replay_program.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cistern/observe/csv_trace.hpp"
#include "cistern/observe/trace.hpp"

namespace cistern {
namespace {

// More than any machine has; sums of live bytes stay far from overflow.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

std::string trace_name(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  for (const char* ending : {".gz", ".csv", ".trace"}) {
    if (name.extension() == ending) name.replace_extension();
  }
  return name.string();
}

}  // namespace

std::optional<std::string> ReplayProgramBuilder::allocate(std::uint64_t id, std::uint64_t bytes,
                                                          std::uint64_t stream) {
  if (bytes == 0) return "an allocation of 0 bytes";
  if (bytes > kMostBytes || live_bytes_ + bytes > kMostBytes) {
    return std::to_string(bytes) + " bytes bring the live bytes above 2^60: no device holds that";
  }
  if (program_.block_count == std::numeric_limits<std::uint32_t>::max()) return "more than 2^32 allocations";
  if (!live_.emplace(id, Live{program_.block_count, bytes}).second) {
    return "allocates " + std::to_string(id) + ", which is live already";
  }
  program_.operations.push_back({bytes, stream, program_.block_count++, ReplayOperation::Action::kAllocate});
  live_bytes_ += bytes;
  program_.lower_bound_bytes = std::max(program_.lower_bound_bytes, live_bytes_);
  return std::nullopt;
}

std::optional<std::string> ReplayProgramBuilder::free(std::uint64_t id, std::uint64_t bytes,
                                                      std::uint64_t stream) {
  const auto found = live_.find(id);
  if (found == live_.end()) return "frees " + std::to_string(id) + ", which is not live";
  if (found->second.bytes != bytes) {
    return "frees " + std::to_string(id) + " with " + std::to_string(bytes) + " bytes, allocated with " +
           std::to_string(found->second.bytes);
  }
  program_.operations.push_back({bytes, stream, found->second.block, ReplayOperation::Action::kFree});
  live_bytes_ -= bytes;
  live_.erase(found);
  return std::nullopt;
}

ReplayProgram ReplayProgramBuilder::take(const std::string& path) {
  program_.name = trace_name(path);
  return std::move(program_);
}

ReplayProgram load_replay_program(const std::string& path) {
  return is_event_trace(path) ? load_event_program(path) : load_csv_program(path);
}

}  // namespace cistern
