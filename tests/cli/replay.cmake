# cistern replay, on the built program.
add_test(NAME cli.replay
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/replay_test.py $<TARGET_FILE:cistern_program> -v)
set_tests_properties(cli.replay PROPERTIES LABELS cli TIMEOUT 120)
