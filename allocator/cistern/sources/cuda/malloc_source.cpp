#include "cistern/sources/cuda/malloc_source.hpp"

#include <unistd.h>

#include "cistern/sources/cuda/driver_functions.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {
namespace {

// Addresses are numbers everywhere but here.
void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

SourceTraits traits_of(const char* name, std::size_t capacity_bytes, const MallocOptions& options) {
  SourceTraits traits;
  traits.name = name;
  traits.granule_bytes = options.granule_bytes;
  traits.capacity_bytes = capacity_bytes;
  traits.range_step_bytes = options.granule_bytes;
  return traits;
}

}  // namespace

std::unique_ptr<WholeSource> make_malloc_source(const DriverApi& api, int device, const MallocOptions& options) {
  WholeMemory memory;
  memory.traits = traits_of("malloc", api.memory(device).total_bytes, options);
  memory.traits.shared_segments = true;
  memory.take = [api, device](std::size_t bytes) -> Address {
    const DriverFunctions& functions = api.functions();
    const DeviceGuard guard(functions, device);
    const RelaxedCapture relaxed(functions);
    void* taken = nullptr;
    if (!functions.granted("cudaMalloc", functions.cudaMalloc(&taken, bytes))) return 0;
    return reinterpret_cast<Address>(taken);
  };
  memory.give = [api](Address address) {
    const RelaxedCapture relaxed(api.functions());
    api.functions().settle("cudaFree", api.functions().cudaFree(pointer(address)));
  };
  memory.available_bytes = [api, device] { return api.memory(device).free_bytes; };
  return std::make_unique<WholeSource>(std::move(memory));
}

std::unique_ptr<WholeSource> make_pinned_source(const DriverApi& api, int device, const MallocOptions& options) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  WholeMemory memory;
  memory.traits = traits_of("pinned", static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes, options);
  memory.take = [api, device](std::size_t bytes) -> Address {
    const DriverFunctions& functions = api.functions();
    const DeviceGuard guard(functions, device);
    const RelaxedCapture relaxed(functions);
    void* taken = nullptr;
    const cudaError_t code = functions.cudaHostAlloc(&taken, bytes, cudaHostAllocDefault);
    if (!functions.granted("cudaHostAlloc", code)) return 0;
    return reinterpret_cast<Address>(taken);
  };
  memory.give = [api](Address address) {
    const RelaxedCapture relaxed(api.functions());
    api.functions().settle("cudaFreeHost", api.functions().cudaFreeHost(pointer(address)));
  };
  return std::make_unique<WholeSource>(std::move(memory));
}

}  // namespace cistern
