// Three checks. CHECK: a caller's misuse, always on, prints both values. ASSERT: our own O(1) promises, always on
// (they cost one predicted branch). Promises of O(n) live in Heap::audit(), called after every operation when
// CISTERN_AUDIT is defined.
#pragma once

#include <cstdint>

namespace cistern::detail {

[[noreturn]] void assert_failed(const char* expression, const char* file, int line);
[[noreturn]] void check_failed(const char* expression, std::uint64_t left, std::uint64_t right, const char* file,
                               int line);

}  // namespace cistern::detail

#define CISTERN_ASSERT(condition)                                                        \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::cistern::detail::assert_failed(#condition, __FILE__, __LINE__);                  \
  } while (false)

#define CISTERN_CHECK_OP_(left, op, right)                                               \
  do {                                                                                   \
    const auto cistern_left = (left);                                                    \
    const auto cistern_right = (right);                                                  \
    if (!(cistern_left op cistern_right)) [[unlikely]]                                   \
      ::cistern::detail::check_failed(#left " " #op " " #right,                          \
                                      static_cast<std::uint64_t>(cistern_left),          \
                                      static_cast<std::uint64_t>(cistern_right), __FILE__, __LINE__); \
  } while (false)

#define CISTERN_CHECK_EQ(left, right) CISTERN_CHECK_OP_(left, ==, right)
#define CISTERN_CHECK_NE(left, right) CISTERN_CHECK_OP_(left, !=, right)
#define CISTERN_CHECK_LE(left, right) CISTERN_CHECK_OP_(left, <=, right)
#define CISTERN_CHECK_LT(left, right) CISTERN_CHECK_OP_(left, <, right)
