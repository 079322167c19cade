#include "cistern/base/check.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace cistern::detail {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "cistern: broken promise: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

void check_failed(const char* expression, std::uint64_t left, std::uint64_t right, const char* file, int line) {
  std::fprintf(stderr, "cistern: misuse: %s does not hold, left is %" PRIu64 " (0x%" PRIx64 "), right is %" PRIu64
               " (0x%" PRIx64 ") (%s:%d)\n",
               expression, left, left, right, right, file, line);
  std::abort();
}

}  // namespace cistern::detail
