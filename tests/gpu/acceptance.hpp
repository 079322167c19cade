// The allocator on a real GPU, part by part. A part throws when something does not hold; acceptance.cu runs
// them.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "cistern/base/units.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern::gpu {

/// What did not hold.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Failed(what);
}

/// True over tests/support/fake_cudart: kernels do nothing there, so what they would have computed is not
/// looked at, and sizes are smaller.
bool is_fake();

/// The allocator under torch's tensors on device 0.
CachingAllocator& device_allocator();

/// The one that torch had before; it serves nobody, and can be asked for memory after its init().
c10::cuda::CUDACachingAllocator::CUDAAllocator& native_allocator();

/// As cudaMemGetInfo says: what the whole machine sees.
std::size_t free_device_bytes();

/// What the driver takes for itself while memory is mapped.
inline constexpr std::size_t kDriverSlack = 128 * kMiB;

// Each gives a few words on what it saw.
std::string patterns_on_four_streams();  // acceptance.cu
std::string record_stream();
std::string limits();  // acceptance_memory.cpp
std::string trim();
std::string whole_device();
std::string preallocation();
std::string graphs();  // acceptance_torch.cpp
std::string memory_pool();
std::string cudnn_benchmark();
std::string nccl_single_rank();
std::string granule_costs();  // acceptance_costs.cpp
std::string hot_path_costs();

}  // namespace cistern::gpu
