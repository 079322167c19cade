// Traces as text: what PyTorch's memory snapshots and most other recordings convert to, plain or gzip.
//
//   # peak_live_bytes=781312000          comment lines start with #; key=value words in them are optional
//   action,id,bytes,stream               the header, exactly so, before the first operation
//   alloc,0,31457280,0                   decimal numbers; free and use repeat the bytes of the allocation
//   use,0,31457280,7                     stream 7 uses block 0 too (record_stream)
//   free,0,31457280,0
//   sync,0,0,7                           the host has waited for all work of stream 7
//
// With the header action,id,bytes,stream,pool each line has a fifth number: the private pool of an alloc, else 0.
#pragma once

#include <string>

#include "cistern/observe/replay_program.hpp"

namespace cistern {

/// Reads line by line. Throws FileError naming file and line: unknown action, wrong number of fields, not a
/// number, negative, above 2^60, 0 bytes, an id live already, a free of what is not live or with another
/// size, no header, no operation, a gzip stream cut off, or a peak_live_bytes in a comment that the trace
/// does not reach (lines are missing).
ReplayProgram load_csv_program(const std::string& path);

/// Writes what load_csv_program reads as the same program, packed if the name ends in .gz. `comment` is one line.
/// Throws FileError.
void write_csv_program(const ReplayProgram& program, const std::string& comment, const std::string& path);

}  // namespace cistern
