# cistern_cuda_headers: where cuda.h and cuda_runtime_api.h are. Nothing of CUDA is linked: driver functions come from
# a table filled at run time. Where: CISTERN_CUDA_INCLUDE, then a toolkit, then the wheels in .venv of this project.
file(GLOB cuda_of_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/include)
find_path(CISTERN_CUDA_INCLUDE NAMES crt/host_defines.h DOC "holds cuda_runtime_api.h and crt/host_defines.h"
  HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda ${cuda_of_venv} PATH_SUFFIXES include NO_DEFAULT_PATH)
if(NOT CISTERN_CUDA_INCLUDE OR NOT EXISTS ${CISTERN_CUDA_INCLUDE}/cuda_runtime_api.h)
  message(FATAL_ERROR "CUDA headers were not found. Run tools/setup.sh, or set CISTERN_CUDA_INCLUDE to the directory "
    "of cuda_runtime_api.h, or turn CISTERN_WITH_CUDA off.")
endif()
message(STATUS "cistern: CUDA headers in ${CISTERN_CUDA_INCLUDE}")
add_library(cistern_cuda_headers INTERFACE)
target_include_directories(cistern_cuda_headers SYSTEM INTERFACE ${CISTERN_CUDA_INCLUDE})
