// What is tried after the core has nothing left, and what a person reads when that fails, too.
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/base/units.hpp"

namespace cistern {
namespace {

/// Whoever holds memory that nobody needs any more, and registered to be asked (CUDA IPC does).
bool run_free_memory_callbacks() {
  bool freed = false;
  for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
  return freed;
}

}  // namespace

Address CudaAllocator::retry_or_throw(CudaDevice& device, CachingAllocator& allocator, const Request& request,
                                      const Failure& failure) {
  if (run_free_memory_callbacks()) {
    if (const auto allocation = allocator.allocate(request)) return allocation->address;
  }
  if (request.pool == PoolId{}) {
    for (const PoolPlace& willing : pools_.willing_on_oom(device.index())) {
      Request there = request;
      there.pool = willing.pool;
      if (const auto allocation = willing.allocator->allocate(there)) return allocation->address;
    }
  }
  throw_out_of_memory(device, request, failure);
}

void CudaAllocator::throw_out_of_memory(CudaDevice& device, const Request& request, const Failure& failure) {
  const auto index = static_cast<DeviceIndex>(device.index());
  counters_[static_cast<std::size_t>(index)].out_of_memory.fetch_add(1, std::memory_order_relaxed);
  const DriverApi::Memory memory = devices_.driver().memory(index);
  if (history_.listening()) {
    tell_news(device);
    history_.tell({CudaHistory::TraceEntry::OOM, index, memory.free_bytes, request.bytes,
                   device.fences().handle_of(request.stream), {0, 0},
                   history_.gather(CudaHistory::RecordContext::ALL)});
  }
  if (c10::memoryProfilingEnabled()) {
    c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(request.bytes), failure.active_bytes,
                                     failure.reserved_bytes, c10::Device(c10::kCUDA, index));
  }
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers;
  {
    const std::scoped_lock lock(observers_mutex_);
    observers = observers_;
  }
  const std::size_t most = std::min(failure.limit_bytes, memory.total_bytes);
  for (const auto& observer : observers) observer(index, request.bytes, most, memory.free_bytes);
  const std::size_t used = memory.total_bytes - memory.free_bytes;
  const std::size_t outside = used - std::min(used, device.allocator().stats().reserved.current);
  C10_THROW_ERROR(OutOfMemoryError, failure.explain() + "  driver            " + format_bytes(used) + " of " +
                                        format_bytes(memory.total_bytes) + " used, " + format_bytes(outside) +
                                        " of it not by cistern; " + format_bytes(memory.free_bytes) + " free");
}

void CudaAllocator::attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) {
  const std::scoped_lock lock(observers_mutex_);
  observers_.push_back(std::move(observer));
}

}  // namespace cistern
