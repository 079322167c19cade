// Traces as recorded: every event of one allocator, as it is in memory. Version 1, little endian, plain or
// (by a name ending in .gz) gzip:
//
//   header   8 B  "CISTRACE"
//            4 B  version, 1
//            4 B  bytes per record, 56
//            8 B  granule of the source in bytes
//            8 B  capacity of the source in bytes
//            2 B  device, then 30 B zero
//   records  struct Event of core/event.hpp, in the order of arrival: `sequence` gives the order of time
//   footer   one more record, all zero (kind 0 too) but for `bytes`: the number of records before it
//
// A file without its footer was cut off and is refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cistern/core/event.hpp"
#include "cistern/observe/files.hpp"
#include "cistern/observe/replay_program.hpp"

namespace cistern {

struct TraceInfo {
  std::uint64_t granule_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  DeviceId device;
};

/// Writes what it consumes. The name shows nothing until close, and then the whole file.
class TraceWriter final : public EventSink {
 public:
  /// Throws FileError.
  TraceWriter(std::string path, const TraceInfo& info);

  /// Never throws: a failing disk is told by close.
  void consume(std::span<const Event> events) override;

  /// Requires that recording has stopped. Throws FileError. Without it the destructor leaves no file.
  void close();

  std::uint64_t event_count() const noexcept { return event_count_; }

 private:
  OutputFile file_;
  std::uint64_t event_count_ = 0;
};

struct Trace {
  TraceInfo info;
  std::vector<Event> events;  ///< By sequence, each number once.
};

/// Throws FileError: not a trace, another version or record size, cut off, trailing bytes, an unknown kind of
/// event (all naming the record, from 0), or a sequence number twice.
Trace read_trace(const std::string& path);

/// Whether the file starts like a trace of events. Throws FileError if it cannot be read.
bool is_event_trace(const std::string& path);

/// The allocations and frees of a trace. Uses by a second stream (kRecordStream) and pools are not replayed.
/// Throws FileError as read_trace does, and for a free of what is not live.
ReplayProgram load_event_program(const std::string& path);

}  // namespace cistern
