// Memory that other devices use, as peers or by copies, and what the driver calls an allocation.
#include <c10/cuda/CUDAException.h>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/sources/cuda/driver_functions.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {

void CudaAllocator::enablePeerAccess(DeviceIndex index, DeviceIndex peer) {
  // `index` is to reach memory of `peer`.
  CudaDevice& owner = device_of(peer);
  as_torch_errors([&] {
    if (owner.vmm() != nullptr) owner.vmm()->add_peer(index);
  });
  const DriverFunctions& functions = devices_.driver().functions();
  const DeviceGuard guard(functions, index);
  const cudaError_t code = functions.cudaDeviceEnablePeerAccess(peer, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    functions.cudaGetLastError();
  } else {
    C10_CUDA_CHECK(code);
  }
}

// Memory that was mapped by granules, unlike that of cudaMalloc, is copied between devices without peer access by the
// peer call only.
cudaError_t CudaAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                       cudaStream_t stream, bool peers) {
  const DriverFunctions& functions = devices_.driver().functions();
  if (peers || to_device == from_device) {
    return functions.cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return functions.cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

void* CudaAllocator::getBaseAllocation(void* data, std::size_t* bytes) {
  const auto address = reinterpret_cast<Address>(data);
  const auto owner = devices_.find_owner(address);
  TORCH_CHECK(owner, "cistern: getBaseAllocation of ", data, ", which is no live CUDA block");
  const auto range = owner->allocator->find_range(address)->range;
  if (owner->allocator->source_traits().whole_only) {
    if (bytes != nullptr) *bytes = range.bytes;
    return reinterpret_cast<void*>(range.address);
  }
  // The driver knows granules: those under the block are what it could export.
  const std::size_t granule = owner->allocator->source_traits().granule_bytes;
  const Address base = address / granule * granule;
  if (bytes != nullptr) *bytes = (address + owner->block.granted_bytes - base + granule - 1) / granule * granule;
  return reinterpret_cast<void*>(base);
}

}  // namespace cistern
