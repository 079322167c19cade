# cistern-classify, on the built program.
if(TARGET cistern-classify)
  add_test(NAME cli.classify
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/classify_test.py $<TARGET_FILE:cistern-classify> -v)
  set_tests_properties(cli.classify PROPERTIES LABELS cli TIMEOUT 600)
endif()
