// `cistern import`: other programs' recordings as a trace.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace cistern::cli {

/// As given on the command line.
struct ImportArguments {
  std::string file;
  std::string out;
  std::optional<int> device;
};

CLI::App* add_import_command(CLI::App& app, ImportArguments& arguments);

/// Writes the file and one line about it. Throws UsageError or FileError.
void run_import(const ImportArguments& arguments, std::ostream& out);

}  // namespace cistern::cli
