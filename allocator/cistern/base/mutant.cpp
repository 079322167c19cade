#include "cistern/base/mutant.hpp"

#ifdef CISTERN_MUTANTS
#include <cstdlib>
#include <cstring>

namespace cistern::detail {

bool mutant_selected(const char* name) noexcept {
  static const char* const selected = std::getenv("CISTERN_MUTANT");
  return selected != nullptr && std::strcmp(selected, name) == 0;
}

}  // namespace cistern::detail
#endif
