// Trace files from anybody, events or CSV, plain or gzip: either a program whose every free names a live
// block, or a FileError.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cistern/observe/files.hpp"
#include "cistern/observe/replay_program.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const cistern::ReplayProgram& program) {
  using Action = cistern::ReplayOperation::Action;
  std::vector<bool> live(program.block_count);
  for (const cistern::ReplayOperation& operation : program.operations) {
    if (operation.action == Action::kSync) continue;
    require(operation.block < program.block_count);
    require(live[operation.block] == (operation.action != Action::kAllocate));
    if (operation.action != Action::kUse) live[operation.block] = operation.action == Action::kAllocate;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("trace", 0);
  require(file >= 0 && ::write(file, data, size) == static_cast<ssize_t>(size));
  try {
    check(cistern::load_replay_program("/proc/self/fd/" + std::to_string(file)));
  } catch (const cistern::FileError&) {
  }
  ::close(file);
  return 0;
}
