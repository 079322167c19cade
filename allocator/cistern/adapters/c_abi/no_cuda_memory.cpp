// The C interface of a build without CUDA.
#include <stdexcept>

#include "cistern/adapters/c_abi/cuda_memory.hpp"

namespace cistern {
namespace {

[[noreturn]] void refuse() { throw std::runtime_error("cistern: this build has no CUDA (CISTERN_WITH_CUDA is OFF)"); }

}  // namespace

void* allocate_cuda(std::size_t bytes, int, void*) {
  if (bytes != 0) refuse();
  return nullptr;
}

void free_cuda(void* data, std::size_t, int, void*) {
  if (data != nullptr) refuse();
}

void record_cuda_stream(void* data, void*) {
  if (data != nullptr) refuse();
}

}  // namespace cistern
