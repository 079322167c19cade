#include "cistern/adapters/c10_host/host_allocator.hpp"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "cistern/adapters/c10_common.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/adapters/scoped_pool.hpp"
#include "cistern/sources/cuda/malloc_source.hpp"

namespace cistern {
namespace {

c10::Device host() noexcept { return c10::Device(c10::kCPU); }

}  // namespace

PinnedAllocator::Parts::Parts(const DriverApi& driver, int device, const Options& options)
    : source(make_pinned_source(driver, device), at::HostStats{}.bucket_allocation.size()),
      fences(driver, device),
      core(options, source, &fences),
      pools(core) {}

PinnedAllocator::PinnedAllocator(DriverApi driver, const Options& options, at::HostAllocator* previous)
    : driver_(std::move(driver)), options_(options), previous_(previous) {}

PinnedAllocator::Parts& PinnedAllocator::parts() {
  if (Parts* there = find_parts()) [[likely]] return *there;
  const std::scoped_lock lock(making_mutex_);
  if (Parts* there = find_parts()) return *there;
  auto made = std::make_unique<Parts>(driver_, c10::cuda::current_device(), options_);
  if (!options_.record.empty()) made->trace = std::make_unique<OwnTrace>(options_.record + ".pinned", made->core);
  register_device("pinned", made->core);
  parts_.store(made.get(), std::memory_order_release);
  return *made.release();
}

c10::DataPtr PinnedAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &delete_block, host()};
  if (forked_.load(std::memory_order_relaxed)) [[unlikely]] {
    C10_THROW_ERROR(Error, "cistern: a child of fork cannot pin memory; start the process by spawn");
  }
  return as_torch_errors([&]() -> c10::DataPtr {
    Parts& parts = this->parts();
    Request request;
    request.bytes = bytes;
    request.stream = HostFences::kHost;
    request.pool = scoped_pool(parts.core);
    if (parts.pools.routing()) [[unlikely]] {
      if (const auto pool = parts.pools.route(c10::cuda::getCurrentCUDAStream().unwrap())) request.pool = *pool;
    }
    const auto allocation = parts.core.allocate(request);
    if (!allocation) [[unlikely]] C10_THROW_ERROR(OutOfMemoryError, allocation.error().explain());
    void* data = reinterpret_cast<void*>(allocation->address);
    return {data, data, &delete_block, host()};
  });
}

void PinnedAllocator::free(void* context) {
  if (forked_.load(std::memory_order_relaxed)) [[unlikely]] return;
  if (find_parts()->pools.free(reinterpret_cast<Address>(context)) != FreeOutcome::kNotLive) [[likely]] return;
  std::fprintf(stderr, "cistern: free of %p, which is no live pinned block: freed twice, or never granted\n", context);
  if (options_.misuse == Misuse::kAbort) std::abort();
}

/// Must not throw: it runs in destructors.
void PinnedAllocator::delete_block(void* context) {
  if (context == nullptr) return;
  try {
    installed_pinned_allocator()->free(context);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cistern: while freeing %p: %s\n", context, error.what());
  }
}

bool PinnedAllocator::record_event(void* data, void* context, c10::Stream stream) {
  Parts* parts = find_parts();
  const auto record = [&](void* block) {
    const auto address = reinterpret_cast<Address>(block);
    if (parts == nullptr || !parts->core.find(address)) return false;
    const c10::cuda::CUDAStream used(stream);
    return parts->core.record_stream(address, parts->fences.identify(used.stream(), used.device_index()));
  };
  if (as_torch_errors([&] { return record(context) || record(data); })) return true;
  return previous_ != nullptr && previous_->record_event(data, context, stream);
}

void PinnedAllocator::empty_cache() {
  if (forked_.load(std::memory_order_relaxed)) return;
  if (Parts* parts = find_parts()) as_torch_errors([&] { parts->core.trim(); });
  if (previous_ != nullptr) previous_->empty_cache();
}

at::HostStats PinnedAllocator::get_stats() {
  at::HostStats out;
  const Parts* parts = find_parts();
  if (parts == nullptr) return out;
  const Stats stats = parts->core.stats();
  out.active_requests = as_torch(stats.active_blocks);
  out.active_bytes = as_torch(stats.active);
  out.allocations = as_torch(stats.segments);
  out.allocated_bytes = as_torch(stats.reserved);
  const TimedSource::Times times = parts->source.times();
  out.host_alloc_time = times.pinning;
  out.host_free_time = times.unpinning;
  out.num_host_alloc = times.pinning.count;
  out.num_host_free = times.unpinning.count;
  out.bucket_allocation = times.pinned_by_size;
  return out;
}

void PinnedAllocator::reset_accumulated_stats() {
  Parts* parts = find_parts();
  if (parts == nullptr) return;
  parts->core.reset_accumulated();
  parts->source.reset_accumulated();
}

void PinnedAllocator::reset_peak_stats() {
  Parts* parts = find_parts();
  if (parts == nullptr) return;
  parts->core.reset_peak();
  parts->source.reset_peak();
}

void PinnedAllocator::begin_allocate_to_pool(c10::MempoolId_t id, std::function<bool(c10::Stream)> filter) {
  as_torch_errors([&] { parts().pools.begin(id, std::move(filter)); });
}

void PinnedAllocator::end_allocate_to_pool(c10::MempoolId_t id) {
  as_torch_errors([&] { parts().pools.end(id); });
}

void PinnedAllocator::release_pool(c10::MempoolId_t id) {
  as_torch_errors([&] { parts().pools.release(id); });
}

void PinnedAllocator::end_trace() noexcept {
  if (Parts* parts = find_parts(); parts != nullptr && parts->trace) parts->trace->end();
}

void PinnedAllocator::before_fork() {
  making_mutex_.lock();
  if (Parts* parts = find_parts()) parts->core.lock_for_fork();
}

void PinnedAllocator::after_fork() {
  if (Parts* parts = find_parts()) parts->core.unlock_after_fork();
  making_mutex_.unlock();
}

void PinnedAllocator::after_fork_in_child() {
  if (find_parts() != nullptr) forked_.store(true, std::memory_order_relaxed);
  after_fork();
}

}  // namespace cistern
