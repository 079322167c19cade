# cistern_warnings: the warnings every target of ours is compiled with. Errors only where a preset asks.
add_library(cistern_warnings INTERFACE)
target_compile_options(cistern_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
  -Wimplicit-fallthrough -Wextra-semi
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # GCC 12 sees overlaps in "literal" + std::string
  $<$<BOOL:${CISTERN_WERROR}>:-Werror>)
