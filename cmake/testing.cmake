# cistern_add_test(<name> SOURCES <file>... [DEPENDS <target>...] [LABELS <label>] [TIMEOUT <seconds>])
#
# One Google Test program; each of its tests is a test of ctest. Tests learn where things are from
# CISTERN_SOURCE_DIR and CISTERN_BIN_DIR. The label is the folder's name unless
# given; at most one, as gtest_discover_tests takes lists apart.
find_package(GTest REQUIRED)
include(GoogleTest)

function(cistern_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;LABELS" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "cistern_add_test(${name}): no SOURCES, or unknown '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    get_filename_component(arg_LABELS ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main cistern_warnings)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE
    CISTERN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" CISTERN_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX ${name}.
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS})
endfunction()
