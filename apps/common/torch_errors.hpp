// Errors of torch in one piece of text.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>
#include <string>

namespace cistern::apps {

/// What work() gives. A c10::Error of it becomes a std::runtime_error without the backtrace that torch
/// appends: the allocator's explanation is complete.
template <class Work>
auto with_short_errors(const Work& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    std::string message = error.what_without_backtrace();
    message.erase(message.find_last_not_of('\n') + 1);
    throw std::runtime_error(message);
  }
}

}  // namespace cistern::apps
