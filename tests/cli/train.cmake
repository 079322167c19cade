# cistern-train, on the built program.
if(TARGET cistern-train)
  add_test(NAME cli.train
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/train_test.py $<TARGET_FILE:cistern-train> -v)
  set_tests_properties(cli.train PROPERTIES LABELS cli TIMEOUT 600)
endif()
