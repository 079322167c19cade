# Imported targets torch::c10 and torch::torch_cpu, from a wheel's torch directory or an unpacked libtorch; with CUDA
# also torch::c10_cuda and torch::cudart, the runtime it was built for.
# Not find_package(Torch): that wants nvcc, Python and six seconds, even of a CPU program.
# Where: CISTERN_TORCH (variable, then environment), then .venv of this project, then CMAKE_PREFIX_PATH.
# Also read from an install tree, by the package's config file.
file(GLOB torch_of_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
find_path(CISTERN_TORCH NAMES lib/libc10.so DOC "torch's directory: holds lib/libc10.so"
  HINTS ENV CISTERN_TORCH PATHS ${torch_of_venv} ${Torch_ROOT} ${CMAKE_PREFIX_PATH} NO_DEFAULT_PATH)
if(NOT CISTERN_TORCH)
  message(FATAL_ERROR "torch was not found. Run tools/setup.sh, or set CISTERN_TORCH to a directory that holds "
    "lib/libc10.so (the wheel's site-packages/torch or an unpacked libtorch).")
endif()

set(torch_version "")
foreach(file build-version version.py)
  if(NOT torch_version AND EXISTS ${CISTERN_TORCH}/${file})
    file(STRINGS ${CISTERN_TORCH}/${file} lines REGEX "[0-9]+\\.[0-9]+\\.[0-9]+")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" torch_version "${lines}")
  endif()
endforeach()
if(torch_version VERSION_LESS 2.8)
  message(FATAL_ERROR "cistern needs torch 2.8 or newer; ${CISTERN_TORCH} has '${torch_version}'")
endif()

if(NOT TARGET torch::torch_cpu)
  message(STATUS "cistern: torch ${torch_version} in ${CISTERN_TORCH}")
  foreach(library c10 torch_cpu)
    add_library(torch::${library} SHARED IMPORTED)
    set_target_properties(torch::${library} PROPERTIES
      IMPORTED_LOCATION ${CISTERN_TORCH}/lib/lib${library}.so
      INTERFACE_INCLUDE_DIRECTORIES "${CISTERN_TORCH}/include;${CISTERN_TORCH}/include/torch/csrc/api/include"
      INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO")
  endforeach()
  # Executables must need libtorch_cpu themselves: else a BLAS that another library brings wins its symbols.
  set_target_properties(torch::torch_cpu PROPERTIES
    INTERFACE_LINK_LIBRARIES torch::c10 INTERFACE_LINK_OPTIONS LINKER:--no-as-needed)
endif()

if(NOT TARGET torch::c10_cuda AND EXISTS ${CISTERN_TORCH}/lib/libc10_cuda.so)
  file(STRINGS ${CISTERN_TORCH}/lib/libc10_cuda.so cudart_soname REGEX "^libcudart\\.so\\.[0-9]+$" LIMIT_COUNT 1)
  file(GLOB cudart_of_wheels ${CISTERN_TORCH}/../nvidia/cu*/lib)
  find_library(CISTERN_CUDART NAMES ${cudart_soname} DOC "the CUDA runtime that torch was built for"
    HINTS ${cudart_of_wheels} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
  if(CISTERN_CUDART)
    add_library(torch::cudart SHARED IMPORTED)
    set_target_properties(torch::cudart PROPERTIES IMPORTED_LOCATION ${CISTERN_CUDART})
    add_library(torch::c10_cuda SHARED IMPORTED)
    set_target_properties(torch::c10_cuda PROPERTIES
      IMPORTED_LOCATION ${CISTERN_TORCH}/lib/libc10_cuda.so INTERFACE_LINK_LIBRARIES torch::c10)
  endif()
endif()

# Nothing refers to libtorch_cuda by name, so it is linked whether needed or not; what it needs itself is its own affair.
if(NOT TARGET torch::torch_cuda AND TARGET torch::c10_cuda AND EXISTS ${CISTERN_TORCH}/lib/libtorch_cuda.so)
  add_library(torch::torch_cuda SHARED IMPORTED)
  set_target_properties(torch::torch_cuda PROPERTIES
    IMPORTED_LOCATION ${CISTERN_TORCH}/lib/libtorch_cuda.so
    INTERFACE_LINK_LIBRARIES "torch::c10_cuda;torch::torch_cpu"
    INTERFACE_LINK_OPTIONS "LINKER:--no-as-needed,--allow-shlib-undefined")
endif()
