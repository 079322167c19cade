// Planted bugs, to prove that the tests would notice one. In an ordinary build CISTERN_MUTANT(name) is the constant
// false and costs nothing; with CISTERN_MUTANTS it is true when the environment variable CISTERN_MUTANT says `name`.
#pragma once

#ifdef CISTERN_MUTANTS
namespace cistern::detail {
bool mutant_selected(const char* name) noexcept;
}  // namespace cistern::detail
#define CISTERN_MUTANT(name) (::cistern::detail::mutant_selected(#name))
#else
#define CISTERN_MUTANT(name) (false)
#endif
