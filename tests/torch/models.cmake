# Models and the trainer. The torch header comes precompiled from models, which asks for code compiled like a library.
add_library(large_allocations MODULE large_allocations.cpp)
target_link_libraries(large_allocations PRIVATE ${CMAKE_DL_LIBS} cistern_warnings)

cistern_add_test(worker_team_test SOURCES worker_team_test.cpp DEPENDS cistern::models Threads::Threads LABELS torch)
cistern_add_test(models_test
  SOURCES fused_mnist_cnn_test.cpp mnist_models_test.cpp model_files_test.cpp
  DEPENDS cistern::training cistern::observe LABELS torch)
cistern_add_test(epoch_memory_test SOURCES epoch_memory_test.cpp DEPENDS cistern::training LABELS torch TIMEOUT 240)
if(TARGET cistern_images)
  cistern_add_test(images_test SOURCES images_test.cpp
    DEPENDS cistern::images cistern::observe opencv::imgproc opencv::imgcodecs ${CMAKE_DL_LIBS} LABELS torch)
endif()
foreach(target models_test epoch_memory_test)
  target_precompile_headers(${target} REUSE_FROM cistern_models)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  cistern_use_torch_pool(${target})
endforeach()

foreach(strategy preallocate geometric)
  add_test(NAME epoch_memory_test.${strategy} COMMAND epoch_memory_test)
  set_tests_properties(epoch_memory_test.${strategy} PROPERTIES LABELS torch TIMEOUT 240
    ENVIRONMENT "CISTERN_CONF=strategy:${strategy},preallocate:512MiB")
endforeach()

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME torch.large_allocations
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/large_allocations_test.py
    $<TARGET_FILE:cistern-train> $<TARGET_FILE:large_allocations>)
set_tests_properties(torch.large_allocations PROPERTIES LABELS torch TIMEOUT 120)
