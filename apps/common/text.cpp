#include "apps/common/text.hpp"

#include <cstdarg>
#include <cstdio>

namespace cistern::apps {

std::string text(const char* format, ...) {
  char buffer[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

}  // namespace cistern::apps
