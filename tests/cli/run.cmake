# cistern run, on the built program, where there is a plug to run it with: what needs no torch, and with torch under Python.
if(NOT TARGET cistern_c10_cpu)
  return()
endif()
set(run_arguments --program $<TARGET_FILE:cistern_program> --preload $<TARGET_FILE:cistern_preload>)
add_dependencies(cistern_program cistern_c10_cpu)
add_test(NAME cli.run
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/run_test.py ${run_arguments} -v)
set_tests_properties(cli.run PROPERTIES LABELS cli TIMEOUT 120)

if(TARGET cistern_c10_host AND TARGET fake_cudart)
  add_dependencies(cistern_program cistern_c10_cuda cistern_c10_host)
  list(APPEND run_arguments --fake-runtime $<TARGET_FILE:fake_cudart>:$<TARGET_FILE:fake_cuda>)
endif()
get_filename_component(site_packages ${CISTERN_TORCH} DIRECTORY)
add_test(NAME cli.run_with_torch
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/run_torch_test.py ${run_arguments}
    --site-packages ${site_packages} -v)
set_tests_properties(cli.run_with_torch PROPERTIES LABELS cli TIMEOUT 600 SKIP_RETURN_CODE 77)
