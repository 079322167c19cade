// printf into a string, for a line of output.
#pragma once

#include <string>

namespace cistern::apps {

/// At most 255 characters.
__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...);

}  // namespace cistern::apps
