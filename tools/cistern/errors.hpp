// What ends the program early, by exit code: 2 for what the command line alone shows, 1 for files and data.
#pragma once

#include <stdexcept>

namespace cistern::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kDataExitCode = 1;
inline constexpr int kUsageExitCode = 2;

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cistern::cli
