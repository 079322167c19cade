// From torch's streams to ours without asking the driver, where that is safe.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <cstdint>

#include "cistern/adapters/cuda_devices.hpp"

namespace cistern {

/// torch never destroys the streams of its pools, and numbers them: for those, and for the default stream,
/// the driver is asked once. A stream that the user brought is a handle that may mean another stream
/// tomorrow: it is asked for each time. Requires a stream of that device. Threads: any. Fails with
/// DriverError.
inline StreamId identify_stream(CudaDevice& device, const c10::cuda::CUDAStream& stream) {
  // The numbers of torch's own streams are odd; those of the user's are handles, and even. The default stream is 0.
  const auto number = static_cast<std::uint64_t>(stream.id());
  const bool own = number < CudaDevice::kNumberedStreams && ((number & 1) != 0 || number == 0);
  if (!own) [[unlikely]] return device.fences().identify(stream.stream());
  std::atomic<std::uint64_t>& known = device.numbered_stream(number);  // the identity plus one; 0: not asked yet
  if (const std::uint64_t id = known.load(std::memory_order_acquire)) [[likely]] return StreamId{id - 1};
  const StreamId id = device.fences().identify(stream.stream());
  known.store(id.value + 1, std::memory_order_release);
  return id;
}

}  // namespace cistern
