// Limits, and giving memory back.
#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <string>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/base/units.hpp"

namespace cistern {

void CudaAllocator::emptyCache(MempoolId id) {
  if (devices_.is_forked_child()) return;
  as_torch_errors([&] {
    for (int index = 0; index < devices_.count(); ++index) {
      CudaDevice* device = devices_.find(index);
      if (device == nullptr) continue;
      if (id != MempoolId{0, 0}) {
        pools_.empty(*device, id);
      } else {
        pools_.empty_unused(*device);
        device->allocator().trim();
      }
      tell_news(*device);
    }
  });
}

double CudaAllocator::getMemoryFraction(DeviceIndex index) {
  CudaDevice& device = device_of(index);
  const std::size_t capacity = device.source().traits().capacity_bytes;
  const std::size_t limit = device.allocator().limit_bytes();
  return limit >= capacity ? 1.0 : static_cast<double>(limit) / static_cast<double>(capacity);
}

void CudaAllocator::setMemoryFraction(double fraction, DeviceIndex index) {
  TORCH_CHECK_VALUE(fraction >= 0.0 && fraction <= 1.0, "cistern: a memory fraction is between 0 and 1, not ",
                    fraction);
  CudaDevice& device = device_of(index);
  if (devices_.is_forked_child()) return;
  const std::size_t capacity = device.source().traits().capacity_bytes;
  const auto limit = static_cast<std::size_t>(fraction * static_cast<double>(capacity));
  as_torch_errors([&] {
    if (const auto set = device.allocator().set_limit(limit); !set) C10_THROW_ERROR(Error, set.error().explain());
    tell_news(device);
  });
}

// cuDNN's benchmark mode asks how large a workspace it may try.
void CudaAllocator::cacheInfo(DeviceIndex index, std::size_t* largest_bytes) {
  CudaDevice& device = device_of(index);
  as_torch_errors([&] {
    std::size_t new_memory = *largest_bytes != 0 ? *largest_bytes : devices_.driver().memory(index).free_bytes;
    new_memory = std::min(new_memory, device.allocator().budget().headroom());
    const std::size_t cached = device.allocator().stats().largest_free_bytes;
    *largest_bytes = std::max(new_memory, cached);
  });
}

std::pair<std::size_t, std::size_t> CudaAllocator::getMemoryInfo(DeviceIndex index) {
  CudaDevice& device = device_of(index);
  return as_torch_errors([&]() -> std::pair<std::size_t, std::size_t> {
    const DriverApi::Memory memory = devices_.driver().memory(index);
    const std::size_t free_bytes = std::min(memory.free_bytes, device.allocator().budget().headroom());
    return {free_bytes, std::min(memory.total_bytes, device.allocator().limit_bytes())};
  });
}

}  // namespace cistern
