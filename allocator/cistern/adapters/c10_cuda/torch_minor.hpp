// What changes with torch's minor version: the interface that c10_cuda implements has another layout in each, so the
// plug serves the minor it was built for and no other. A new minor is admitted here, and what it adds is added here.
#pragma once

#include <string>

#if defined(CISTERN_TORCH_MINOR) && (CISTERN_TORCH_MAJOR != 2 || CISTERN_TORCH_MINOR != 11)
#error "cistern's CUDA plug is written for torch 2.11; use the C interface (cistern::c_abi) with other versions"
#endif

namespace cistern {

/// "2.11.0": the version whose headers this was compiled with.
const char* torch_built_for() noexcept;

/// The version of the torch in this process, as itself or the files beside it say; empty if nothing says.
std::string running_torch_version();

/// Why a torch of that version cannot be served, with the ways out; empty if it can.
std::string why_not_torch(const std::string& running_version);

}  // namespace cistern
