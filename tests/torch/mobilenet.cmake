# MobileNetV2. Light headers where they suffice: torch/torch.h comes precompiled from models.
cistern_add_test(weights_file_test SOURCES weights_file_test.cpp
  DEPENDS cistern::models cistern::observe nlohmann_json::nlohmann_json LABELS torch)
cistern_add_test(mobilenet_v2_test SOURCES mobilenet_v2_test.cpp
  DEPENDS cistern::models LABELS torch TIMEOUT 300)
cistern_add_test(mobilenet_v2_memory_test SOURCES mobilenet_v2_memory_test.cpp
  DEPENDS cistern::models cistern::c10_cpu cistern::observe cistern::simulated LABELS torch TIMEOUT 300)
foreach(target weights_file_test mobilenet_v2_test mobilenet_v2_memory_test)
  target_precompile_headers(${target} REUSE_FROM cistern_models)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  cistern_use_torch_pool(${target})
endforeach()
