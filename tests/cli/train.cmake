# cistern-train, on the built program; with the CUDA plug over the fake runtime too.
if(TARGET cistern-train)
  add_test(NAME cli.train
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/train_test.py $<TARGET_FILE:cistern-train> -v)
  set_tests_properties(cli.train PROPERTIES LABELS cli TIMEOUT 600)
  if(TARGET cistern_images)
    add_test(NAME cli.train_mobilenet
      COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/train_mobilenet_test.py $<TARGET_FILE:cistern-train> -v)
    set_tests_properties(cli.train_mobilenet PROPERTIES LABELS cli TIMEOUT 600)
  endif()
  if(TARGET cistern_c10_host)
    set_tests_properties(cli.train PROPERTIES ENVIRONMENT
      "CISTERN_FAKE_CUDA=$<TARGET_FILE:fake_cudart>:$<TARGET_FILE:fake_cuda>;TORCH_LIBRARIES=${CISTERN_TORCH}/lib")
  endif()
endif()
