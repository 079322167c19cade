// What all programs share on the command line: exit codes, one-line errors, sizes.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

#include "cistern/base/units.hpp"

namespace cistern::apps {

inline constexpr int kExitFailure = 1;  ///< Something about a file, a device or data.
inline constexpr int kExitUsage = 2;    ///< What the command line and the environment alone show to be wrong.

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ends a program by a signal's wish, after it has cleaned up: exit code 128 + signal.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& message) : std::runtime_error(message), signal_(signal) {}
  int exit_code() const noexcept { return 128 + signal_; }

 private:
  int signal_;
};

/// Parses, runs body, and turns every exception into one message on stderr and the exit code for it.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

/// Options whose value is a size (base/units.hpp): of a limit, and in general.
CLI::Option* add_limit(CLI::App& app, const std::string& name, std::optional<Amount>& target,
                       const std::string& help);
CLI::Option* add_amount(CLI::App& app, const std::string& name, std::optional<Amount>& target,
                        const std::string& help);

}  // namespace cistern::apps
