// One run of cistern-classify, from the options to the exit code.
#pragma once

#include "apps/classify/options.hpp"

namespace cistern::classify {

/// 0, or 1 where an image was broken. Fails with FileError (weights, labels, folders, lists),
/// apps::Interrupted, or std::runtime_error with the allocator's explanation.
int run_classification(const ClassifyOptions& options);

}  // namespace cistern::classify
