// Runs a program and reads what it prints.
#pragma once

#include <string>
#include <vector>

namespace cistern::apps {

struct SubprocessResult {
  std::string output;  ///< Its stdout; stderr stays ours.
  int exit_code = 0;   ///< 128 + signal if a signal ended it.
};

/// Fails with std::system_error where the program cannot be started.
SubprocessResult run_subprocess(const std::string& program, const std::vector<std::string>& arguments);

/// The file this program was started from.
std::string own_executable();

}  // namespace cistern::apps
