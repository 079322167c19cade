#include <cstdlib>

#include "apps/common/device.hpp"

namespace cistern::apps {

std::string prepare_cuda(int) {
  return "this build has no CUDA plug (CISTERN_WITH_CUDA)";
}

CudaAllocators install_under_cuda(const Options&, int) {
  std::abort();
}  // no device passes prepare_cuda

}  // namespace cistern::apps
