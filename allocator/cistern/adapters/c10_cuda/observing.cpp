// Allocating and freeing while somebody looks on: torch's history, profiler, or GPU trace.
#include <c10/core/impl/GPUTrace.h>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"

namespace cistern {
namespace {

using TraceEntry = CudaHistory::TraceEntry;

c10::Device cuda(const CudaDevice& device) noexcept {
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index()));
}

}  // namespace

void* CudaAllocator::take_observed(CudaDevice& device, CachingAllocator& allocator, const Request& request) {
  CudaHistory::Context context = history_.gather(CudaHistory::RecordContext::STATE);
  void* data = take_from(device, allocator, request);
  tell_news(device);
  const auto owner = devices_.find_owner(reinterpret_cast<Address>(data));
  tell(TraceEntry::ALLOC, *owner, context);
  history_.remember(owner->block.address, std::move(context));
  report_to_profiler(*owner, static_cast<std::int64_t>(owner->block.requested_bytes));
  if (const auto* trace = c10::impl::GPUTrace::get_trace()) {
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(data));
  }
  return data;
}

bool CudaAllocator::give_observed(void* data) {
  const auto owner = devices_.find_owner(reinterpret_cast<Address>(data));
  if (!owner) return devices_.free(reinterpret_cast<Address>(data)).outcome != FreeOutcome::kNotLive;
  if (const auto* trace = c10::impl::GPUTrace::get_trace()) {
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(data));
  }
  CudaHistory::Context made = history_.forget(owner->block.address);
  CudaHistory::Context context = history_.gather(CudaHistory::RecordContext::ALL);
  if (context == nullptr) context = std::move(made);
  tell(TraceEntry::FREE_REQUESTED, *owner, context);
  if (!owner->block.used_elsewhere) tell(TraceEntry::FREE_COMPLETED, *owner, context);
  report_to_profiler(*owner, -static_cast<std::int64_t>(owner->block.requested_bytes));
  const CudaDevices::Freed freed = devices_.free(owner->block.address);
  if (owner->block.used_elsewhere && history_.listening()) {
    history_.wait_for({TraceEntry::FREE_COMPLETED, owner->device->index(), owner->block.address,
                       owner->block.requested_bytes, owner->device->fences().handle_of(owner->block.stream),
                       pools_.id_of(owner->allocator, owner->block.pool), std::move(context)});
  }
  tell_news(*owner->device);
  return freed.outcome != FreeOutcome::kNotLive;
}

void CudaAllocator::report_to_profiler(const CudaDevices::Owner& owner, std::int64_t change) const {
  if (!c10::memoryProfilingEnabled()) return;
  const Stats stats = owner.allocator->stats();
  const std::uint64_t freed = change < 0 ? static_cast<std::uint64_t>(-change) : 0;  // told before it happens
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(owner.block.address), change,
                                   stats.requested.current - freed, stats.reserved.current, cuda(*owner.device));
}

void CudaAllocator::tell(TraceEntry::Action action, const CudaDevices::Owner& owner, CudaHistory::Context context) {
  if (!history_.listening()) return;
  history_.tell({action, owner.device->index(), owner.block.address, owner.block.requested_bytes,
                 owner.device->fences().handle_of(owner.block.stream), pools_.id_of(owner.allocator, owner.block.pool),
                 std::move(context)});
}

void CudaAllocator::tell_news(CudaDevice& device) {
  if (!history_.listening()) return;
  const auto still_pending = [&](const CudaHistory::Happening& freed) {
    CudaDevice* owner = devices_.find(freed.device);
    if (owner->allocator().is_pending(freed.address)) return true;
    for (const auto& pool : owner->foreign_pools()) {
      if (pool->allocator.is_pending(freed.address)) return true;
    }
    return false;
  };
  for (const auto& done : history_.completed(still_pending)) history_.tell(done);
  tell_segments(device, device.source(), device.allocator());
  for (const auto& pool : device.foreign_pools()) tell_segments(device, pool->source, pool->allocator);
}

void CudaAllocator::tell_segments(CudaDevice& device, WatchedSource& source, const CachingAllocator& allocator) {
  if (!source.any()) return;
  const bool whole = source.traits().whole_only;
  for (const SegmentEvent& event : source.take()) {
    CudaHistory::Happening what{event.came ? (whole ? TraceEntry::SEGMENT_ALLOC : TraceEntry::SEGMENT_MAP)
                                           : (whole ? TraceEntry::SEGMENT_FREE : TraceEntry::SEGMENT_UNMAP),
                                device.index(), event.address, event.bytes};
    if (const auto range = allocator.find_range(event.address)) {  // one that went whole has none any more
      what.stream = device.fences().handle_of(range->stream);
      what.pool = pools_.id_of(&allocator, range->pool);
    }
    history_.tell(what);
  }
}

}  // namespace cistern
