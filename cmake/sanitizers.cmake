# CISTERN_SANITIZE=address|thread, for the whole tree: mixed builds give false reports.
if(CISTERN_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(CISTERN_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
  # GCC's thread sanitizer aborts on kernels that randomise more address bits than it knows of.
  set(CMAKE_CROSSCOMPILING_EMULATOR setarch ${CMAKE_SYSTEM_PROCESSOR} -R)
elseif(CISTERN_SANITIZE)
  message(FATAL_ERROR "CISTERN_SANITIZE is '${CISTERN_SANITIZE}'; use 'address' or 'thread'")
endif()
