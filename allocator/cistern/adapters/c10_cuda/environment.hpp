// What environment variables of other frameworks ask for, honoured or answered.
#pragma once

#include <functional>
#include <string>

#include "cistern/core/config.hpp"

namespace cistern {

/// Options with what PYTORCH_CUDA_ALLOC_CONF, else PYTORCH_ALLOC_CONF, and TF_FORCE_GPU_ALLOW_GROWTH say, then
/// CISTERN_CONF on top. A setting that has no meaning here gets one line through `warn`; none is dropped silently.
/// Fails with std::invalid_argument when CISTERN_CONF is wrong.
Options with_environment(Options options, const std::function<void(const std::string& line)>& warn);

}  // namespace cistern
