# What cistern does with traces, on the built program, where it is built.
if(NOT TARGET cistern_program)
  return()
endif()
foreach(command replay fit import plan)
  add_test(NAME cli.${command}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${command}_test.py $<TARGET_FILE:cistern_program> -v)
  set_tests_properties(cli.${command} PROPERTIES LABELS cli TIMEOUT 120)
endforeach()
