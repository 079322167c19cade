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
// As many as an allocator can have at once.
constexpr std::uint64_t kMostPools = 255;

std::string trace_name(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  for (const char* ending : {".gz", ".csv", ".trace"}) {
    if (name.extension() == ending) name.replace_extension();
  }
  return name.string();
}

}  // namespace

std::optional<std::string> ReplayProgramBuilder::allocate(std::uint64_t id, std::uint64_t bytes,
                                                          std::uint64_t stream, std::uint64_t pool) {
  if (bytes == 0) return "an allocation of 0 bytes";
  if (bytes > kMostBytes || live_bytes_ + bytes > kMostBytes) {
    return std::to_string(bytes) + " bytes bring the live bytes above 2^60: no device holds that";
  }
  if (pool > kMostPools) return "pool " + std::to_string(pool) + " is above " + std::to_string(kMostPools);
  if (program_.block_count == std::numeric_limits<std::uint32_t>::max()) return "more than 2^32 allocations";
  if (!live_.emplace(id, Live{program_.block_count, bytes}).second) {
    return "allocates " + std::to_string(id) + ", which is live already";
  }
  program_.operations.push_back({bytes, stream, program_.block_count++, static_cast<std::uint8_t>(pool),
                                 ReplayOperation::Action::kAllocate});
  live_bytes_ += bytes;
  program_.lower_bound_bytes = std::max(program_.lower_bound_bytes, live_bytes_);
  return std::nullopt;
}

std::optional<std::string> ReplayProgramBuilder::complain_of(const char* verb, std::uint64_t id,
                                                             std::uint64_t bytes) const {
  const auto found = live_.find(id);
  const std::string start = std::string(verb) + " " + std::to_string(id);
  if (found == live_.end()) return start + ", which is not live";
  if (found->second.bytes == bytes) return std::nullopt;
  return start + " with " + std::to_string(bytes) + " bytes, allocated with " + std::to_string(found->second.bytes);
}

std::optional<std::string> ReplayProgramBuilder::free(std::uint64_t id, std::uint64_t bytes,
                                                      std::uint64_t stream) {
  if (auto wrong = complain_of("frees", id, bytes)) return wrong;
  const auto found = live_.find(id);
  program_.operations.push_back({bytes, stream, found->second.block, 0, ReplayOperation::Action::kFree});
  live_bytes_ -= bytes;
  live_.erase(found);
  return std::nullopt;
}

std::optional<std::string> ReplayProgramBuilder::use(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream) {
  if (auto wrong = complain_of("uses", id, bytes)) return wrong;
  program_.operations.push_back({bytes, stream, live_.at(id).block, 0, ReplayOperation::Action::kUse});
  return std::nullopt;
}

void ReplayProgramBuilder::sync(std::uint64_t stream) {
  program_.operations.push_back({0, stream, 0, 0, ReplayOperation::Action::kSync});
}

ReplayProgram ReplayProgramBuilder::take(const std::string& path) {
  program_.name = trace_name(path);
  return std::move(program_);
}

ReplayProgram load_replay_program(const std::string& path) {
  return is_event_trace(path) ? load_event_program(path) : load_csv_program(path);
}

}  // namespace cistern
