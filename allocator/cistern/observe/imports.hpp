// Other programs' recordings, as programs to replay. What they say of code and of time is dropped.
#pragma once

#include <optional>
#include <string>

#include "cistern/observe/replay_program.hpp"

namespace cistern {

struct Imported {
  ReplayProgram program;
  std::string
      comment;  ///< key=value words that are worth keeping: initial_blocks, pytorch_peak_reserved_bytes
};

/// PyTorch's memory snapshot: the pickle that torch.cuda.memory._dump_snapshot writes. What is live at the
/// start is what is live at the end, undone event by event; it comes first, in the order of addresses. Uses
/// by other streams and private pools are not in the events. Streams are numbered by appearance, the default
/// stream is 0. `device` may be left out where only one has a history. Throws FileError, as Pickle does and:
/// not a snapshot, no events, events that do not agree with each other (some were lost), or which devices
/// there are.
Imported import_memory_snapshot(const std::string& path, std::optional<int> device);

/// The log of RMM's logging adaptor: Thread,Time,Action,Pointer,Size,Stream, in the order of its lines
/// whatever the thread. Failed allocations are left out. A free of what the log did not allocate is of a
/// block that was live before it began. Throws FileError with the line.
Imported import_rmm_log(const std::string& path);

/// Whether the file begins with the header of such a log. Throws FileError if it cannot be read.
bool is_rmm_log(const std::string& path);

}  // namespace cistern
