// Runs a piece of a test in a child process, so that an abort, a sanitizer's report or an endless loop is a
// failure like any other, and what a process can do only once can be done again.
#pragma once

#include <functional>
#include <string>

namespace cistern::support {

struct ChildEnd {
  std::string output;   ///< What the body returned; empty if it did not return.
  std::string failure;  ///< Empty if it returned; else what it wrote on stderr, and how it ended.
};

/// Requires that this process has one thread.
ChildEnd run_in_child(const std::function<std::string()>& body, unsigned timeout_s);

}  // namespace cistern::support
