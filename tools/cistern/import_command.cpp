#include "import_command.hpp"

#include <ostream>

#include "cistern/base/units.hpp"
#include "cistern/observe/csv_trace.hpp"
#include "cistern/observe/files.hpp"
#include "cistern/observe/imports.hpp"
#include "cistern/observe/pickle.hpp"
#include "errors.hpp"

namespace cistern::cli {
namespace {

constexpr const char* kFooter =
    R"(FILE is told apart by its content, plain or gzip:
  a memory snapshot of PyTorch (torch.cuda.memory._record_memory_history(), then _dump_snapshot(FILE)); what was
    live before the history begins comes first. Nothing in the pickle is run, stack frames are dropped.
  a log of RMM's logging adaptor, with the columns Thread,Time,Action,Pointer,Size,Stream.

Exit code: 0 written; 1 a file cannot be read or written, or is neither; 2 the command line is wrong.)";

Imported import_file(const ImportArguments& arguments) {
  if (is_pickle(arguments.file)) return import_memory_snapshot(arguments.file, arguments.device);
  if (!is_rmm_log(arguments.file)) {
    throw FileError(arguments.file, "is neither a memory snapshot of PyTorch (a pickle) nor a log of RMM");
  }
  if (arguments.device) throw UsageError("--device applies to memory snapshots only");
  return import_rmm_log(arguments.file);
}

}  // namespace

CLI::App* add_import_command(CLI::App& app, ImportArguments& arguments) {
  CLI::App* command =
      app.add_subcommand("import", "Turn a PyTorch memory snapshot or an RMM log into a trace");
  command->footer(kFooter);
  command->add_option("FILE", arguments.file, "What was recorded")->required()->type_name("");
  command->add_option("--out", arguments.out, "The trace to write: CSV, packed if the name ends in .gz")
      ->required()
      ->type_name("FILE");
  command->add_option("--device", arguments.device, "Of a snapshot with histories of several devices")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  return command;
}

void run_import(const ImportArguments& arguments, std::ostream& out) {
  const Imported imported = import_file(arguments);
  write_csv_program(imported.program, imported.comment, arguments.out);
  out << arguments.out << ": " << imported.program.operations.size() << " operations, at most "
      << format_bytes(imported.program.lower_bound_bytes) << " live\n";
}

}  // namespace cistern::cli
