// A file that cannot be used. The message is one line: which file, what is wrong, what to do.
#pragma once

#include <stdexcept>

namespace cistern::models {

class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cistern::models
