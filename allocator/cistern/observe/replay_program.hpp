// What a trace asks for, without where it was placed: the form into which every trace format loads for
// replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cistern {

struct ReplayOperation {
  enum class Action : std::uint8_t {
    kAllocate,
    kFree,
    kUse,   ///< `stream` uses the block too, as record_stream says.
    kSync,  ///< The host has waited for all work of `stream`; no block.
  };
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint32_t block = 0;  ///< Numbers the allocations in order, from 0.
  std::uint8_t pool = 0;    ///< Of an allocation: 0, or a private pool's number.
  Action action = Action::kAllocate;
};

/// Every free names a block that is live at that moment; what is live at the end stays so.
struct ReplayProgram {
  std::string name;  ///< The file's name without folders and endings.
  std::vector<ReplayOperation> operations;
  std::uint32_t block_count = 0;
  std::uint64_t lower_bound_bytes = 0;  ///< Peak of the bytes live at once: no allocator can reserve less.
};

/// Checks a trace line by line while it is read. Ids are the trace's own; one may be used again after its
/// free.
class ReplayProgramBuilder {
 public:
  /// All three return what is wrong with the operation, or nothing. A wrong one changes nothing.
  std::optional<std::string> allocate(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream,
                                      std::uint64_t pool = 0);
  /// `bytes` must repeat what was allocated, here and in use().
  std::optional<std::string> free(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream);
  std::optional<std::string> use(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream);
  void sync(std::uint64_t stream);

  std::uint64_t lower_bound_bytes() const noexcept { return program_.lower_bound_bytes; }
  /// Ends the building.
  ReplayProgram take(const std::string& path);

 private:
  struct Live {
    std::uint32_t block;
    std::uint64_t bytes;
  };
  /// What is wrong with naming the block, or nothing.
  std::optional<std::string> complain_of(const char* verb, std::uint64_t id, std::uint64_t bytes) const;
  ReplayProgram program_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::uint64_t live_bytes_ = 0;
};

/// Reads a trace in whichever of the two formats it is: events (trace.hpp) or CSV (csv_trace.hpp), plain or
/// gzip. Throws FileError.
ReplayProgram load_replay_program(const std::string& path);

}  // namespace cistern
