// Recordings from anybody, memory snapshots and RMM logs: either a program whose every free names a live
// block, or a FileError.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cistern/observe/files.hpp"
#include "cistern/observe/imports.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const cistern::ReplayProgram& program) {
  using Action = cistern::ReplayOperation::Action;
  std::vector<bool> live(program.block_count);
  for (const cistern::ReplayOperation& operation : program.operations) {
    require(operation.action == Action::kAllocate || operation.action == Action::kFree);
    require(live.at(operation.block) == (operation.action == Action::kFree));
    live[operation.block] = operation.action == Action::kAllocate;
  }
}

template <class Import>
void try_import(Import import) {
  try {
    check(import().program);
  } catch (const cistern::FileError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("recorded", 0);
  require(file >= 0 && ::write(file, data, size) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try_import([&] { return cistern::import_memory_snapshot(path, std::nullopt); });
  try_import([&] { return cistern::import_rmm_log(path); });
  ::close(file);
  return 0;
}
