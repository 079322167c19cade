#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "cistern/adapters/c10_cuda/stream_names.hpp"
#include "cistern/adapters/scoped_pool.hpp"
#include "cistern/sources/cuda/driver_functions.hpp"

namespace cistern {
namespace {

c10::Device cuda(c10::DeviceIndex index) noexcept { return c10::Device(c10::kCUDA, index); }

[[noreturn]] void refuse_forked_child() {
  C10_THROW_ERROR(Error, "cistern: a child of fork cannot allocate CUDA memory; start the process by spawn");
}

/// As c10::memoryProfilingEnabled, which is two calls more: most threads have no profiler at all.
inline bool profiled() {
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr && c10::memoryProfilingEnabled();
}

void* pointer(Address address) noexcept { return reinterpret_cast<void*>(address); }
Address address_of(const void* data) noexcept { return reinterpret_cast<Address>(data); }

}  // namespace

CudaAllocator::CudaAllocator(DriverApi driver, const Options& options, CUDAAllocator* previous,
                             std::function<void(CudaDevice&)> made)
    : devices_(std::move(driver), options,
               [this, made = std::move(made)](CudaDevice& device) {
                 device.listen(history_.listening());
                 made(device);
               }),
      previous_(previous),
      misuse_(options.misuse) {}

void CudaAllocator::init(int device_count) { devices_.set_count(device_count); }
bool CudaAllocator::initialized() { return devices_.count() != 0; }

// A request and a free that nobody observes run through inline code up to the core's: each call less is ten instructions
// of about four hundred, those inside torch included.
inline c10::DeviceIndex CudaAllocator::current_device() const {
  DeviceIndex index = 0;
  const cudaError_t error = c10::cuda::GetDevice(&index);
  if (error == cudaSuccess) [[likely]] return index;
  if (devices_.is_forked_child()) refuse_forked_child();  // whose runtime answers nothing
  C10_CUDA_CHECK(error);
  return index;
}

CudaDevice& CudaAllocator::device_of(DeviceIndex index) {
  if (CudaDevice* device = devices_.find(index)) [[likely]] return *device;
  return as_torch_errors([&]() -> CudaDevice& {
    if (devices_.count() == 0) init(devices_.driver().device_count());  // nobody else did: installed after torch began
    return devices_.at(index);
  });
}

c10::DataPtr CudaAllocator::allocate(std::size_t bytes) {
  const DeviceIndex index = current_device();
  if (bytes == 0) return {nullptr, nullptr, &delete_block, cuda(index)};
  void* data = take(index, bytes);
  return {data, data, &delete_block, cuda(index)};
}

void* CudaAllocator::raw_alloc(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return take(current_device(), bytes);
}

void* CudaAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  CudaDevice& device = device_of(current_device());
  return take(device, as_torch_errors([&] { return device.fences().identify(stream); }), bytes);
}

inline bool CudaAllocator::observed() const {
  return history_.listening() || c10::impl::GPUTrace::haveState || profiled();
}

[[gnu::always_inline]] inline void* CudaAllocator::take(DeviceIndex index, std::size_t bytes) {
  CudaDevice* const found = devices_.find(index);
  CudaDevice& device = found != nullptr ? *found : device_of(index);
  return take(device, identify_stream(device, c10::cuda::getCurrentCUDAStream(index)), bytes);
}

[[gnu::always_inline]] inline void* CudaAllocator::take(CudaDevice& device, StreamId stream, std::size_t bytes) {
  const PoolId pool = scoped_pool(device.allocator());
  const Request request{.bytes = bytes, .stream = stream, .pool = pool};
  if (device.has_fault() || devices_.is_forked_child() || pools_.routing() || observed()) [[unlikely]] {
    return take_specially(device, request);
  }
  if (const Address address = device.allocator().allocate_at_once(bytes, stream, pool)) [[likely]] return pointer(address);
  return take_from(device, device.allocator(), request);
}

void* CudaAllocator::take_specially(CudaDevice& device, Request request) {
  if (devices_.is_forked_child()) refuse_forked_child();
  if (const auto fault = device.take_fault()) {
    C10_THROW_ERROR(Error, std::string("cistern: of an earlier call: ") + fault->what());
  }
  std::optional<PoolPlace> place;
  if (pools_.routing()) {
    place = pools_.route(device.index(), static_cast<cudaStream_t>(device.fences().handle_of(request.stream)));
  }
  if (place) request.pool = place->pool;
  CachingAllocator& allocator = place ? *place->allocator : device.allocator();
  return observed() ? take_observed(device, allocator, request) : take_from(device, allocator, request);
}

void* CudaAllocator::take_from(CudaDevice& device, CachingAllocator& allocator, const Request& request) {
  return as_torch_errors([&]() -> void* {
    const auto allocation = allocator.allocate(request);
    if (allocation) [[likely]] return pointer(allocation->address);
    return pointer(retry_or_throw(device, allocator, request, allocation.error()));
  });
}

[[gnu::always_inline]] inline bool CudaAllocator::give(void* data) {
  if (export_count_.load(std::memory_order_acquire) != 0) [[unlikely]] end_export(address_of(data));
  if (observed()) [[unlikely]] return give_observed(data);
  const CudaDevices::Freed freed = devices_.free(address_of(data));
  if (!isEnabled() && freed.device != nullptr) [[unlikely]] freed.device->allocator().trim();
  return freed.outcome != FreeOutcome::kNotLive;
}

[[gnu::flatten]] void CudaAllocator::raw_delete(void* data) {
  if (data == nullptr || as_torch_errors([&] { return give(data); })) [[likely]] return;
  raw_delete_foreign(data);
}

[[gnu::noinline]] void CudaAllocator::raw_delete_foreign(void* data) {
  if (previous_ != nullptr) return previous_->raw_delete(data);
  char text[160];
  std::snprintf(text, sizeof text,
                "cistern: raw_delete of %p, which is no live CUDA block: freed before, inside a block, never granted",
                data);
  C10_THROW_ERROR(Error, text);
}

/// Must not throw: it runs in destructors.
void CudaAllocator::delete_block(void* data) {
  if (data == nullptr) return;
  CudaAllocator& self = *installed_cuda_allocator();
  try {
    if (self.give(data)) [[likely]] return;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cistern: while freeing %p: %s\n", data, error.what());
    return;
  }
  std::fprintf(stderr, "cistern: free of %p, which is no live CUDA block: freed twice, or never granted\n", data);
  if (self.misuse_ == Misuse::kAbort) std::abort();
}

void CudaAllocator::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
  if (data.get() == nullptr || devices_.is_forked_child()) return;
  if (data.get_deleter() != &delete_block) {  // memory of another process, or of whoever was in charge before us
    if (previous_ != nullptr) previous_->recordStream(data, stream);
    return;
  }
  const auto owner = devices_.find_owner(address_of(data.get()));
  TORCH_CHECK(owner, "cistern: recordStream of ", data.get(), ", which is no live CUDA block");
  as_torch_errors([&] {
    owner->allocator->record_stream(owner->block.address,
                                    owner->device->fences().identify(stream.stream(), stream.device_index()));
  });
}

void CudaAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(devices_.driver().functions().cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

}  // namespace cistern
