// `cistern generate`: writes a workload's trace.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cistern::cli {

/// As given on the command line.
struct GenerateArguments {
  std::string name;
  std::string out;
  std::vector<std::string> settings;  ///< PARAMETER=NUMBER
  std::uint64_t seed = 1;
};

CLI::App* add_generate_command(CLI::App& app, GenerateArguments& arguments);

/// Writes the file and one line about it. Throws UsageError or FileError.
void run_generate(const GenerateArguments& arguments, std::ostream& out);

}  // namespace cistern::cli
