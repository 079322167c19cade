#include "cistern/adapters/c_abi/cuda_memory.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "cistern/adapters/cuda_devices.hpp"
#include "cistern/adapters/cuda_registration.hpp"
#include "cistern/adapters/environment.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/adapters/scoped_pool.hpp"
#include "cistern/observe/plan_file.hpp"

namespace cistern {
namespace {

std::atomic<CudaDevices*> made{nullptr};  ///< Never destroyed: frees outlive main.

CudaDevices* present() noexcept { return made.load(std::memory_order_acquire); }

Options configured() { return with_cistern_conf({}); }

/// Calls what asks the driver; its errors say whose they are.
template <class Call>
auto as_ours(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const DriverError& error) {
    throw std::runtime_error(std::string("cistern: ") + error.what());
  }
}

CudaDevices& make() {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (CudaDevices* devices = present()) return *devices;
  if (find_family("cuda") != nullptr) {
    throw std::runtime_error(
        "cistern: the CUDA memory of this process is served by cistern's plug for torch; cistern_alloc would be a "
        "second cache beside it. Use torch's allocator, or do not install the plug");
  }
  const auto driver = DriverApi::from_process();
  if (!driver) throw std::runtime_error(std::string("cistern: no CUDA runtime: ") + driver.error().what());
  const Options options = with_plan(configured());
  auto devices = std::make_unique<CudaDevices>(
      *driver, options, [record = options.record](CudaDevice& device) { register_cuda_device(device, record); });
  devices->set_count(driver->device_count());
  register_cuda_family(*devices);
  made.store(devices.release(), std::memory_order_release);
  // A child has only the forking thread, and no CUDA: it may look at statistics.
  pthread_atfork([] { present()->before_fork(); }, [] { present()->after_fork_in_parent(); },
                 [] { present()->after_fork_in_child(); });
  return *present();
}

Address address_of(const void* data) noexcept { return reinterpret_cast<Address>(data); }

std::string hex(const void* data) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", data);
  return text;
}

[[noreturn]] void misused(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  const CudaDevices* devices = present();
  if ((devices != nullptr ? devices->options() : configured()).misuse == Misuse::kAbort) std::abort();
  throw std::invalid_argument(text);
}

/// Why the device has no live block at the address.
std::string why_not_live(const void* data, int device) {
  const std::string of = "cistern: free of " + hex(data);
  CudaDevices* devices = present();
  for (int index = 0; devices != nullptr && index < devices->count(); ++index) {
    CudaDevice* one = devices->find(index);
    if (one == nullptr) continue;
    if (one->allocator().find(address_of(data))) {
      return of + " on device " + std::to_string(device) + ", but the block is of device " + std::to_string(index);
    }
    if (one->allocator().find_range(address_of(data))) return of + ", which was freed before, or is inside a block";
  }
  return of + ", which cistern_alloc never gave, or which was freed and its memory given back";
}

/// Compares streams. A handle that differs may mean the same stream only among the names of the default one.
bool is_owner_stream(CudaDevice& device, StreamId owner, void* stream) {
  if (device.fences().handle_of(owner) == stream) return true;
  try {
    return device.fences().identify(stream) == owner;
  } catch (const DriverError&) {  // a handle of no stream
    return false;
  }
}

/// Throws nothing but what misused() throws.
void check_free(CudaDevice& device, const LiveBlock& block, std::size_t bytes, void* stream) {
  const auto data = reinterpret_cast<const void*>(block.address);
  if (block.requested_bytes != bytes) {
    misused("cistern: free of " + hex(data) + " with " + std::to_string(bytes) + " bytes, but " +
            std::to_string(block.requested_bytes) + " were asked for");
  }
  if (!is_owner_stream(device, block.stream, stream)) {
    misused("cistern: free of " + hex(data) + " on stream " + hex(stream) + ", but it was allocated on stream " +
            hex(device.fences().handle_of(block.stream)) + "; say cistern_record_stream for streams that use it too");
  }
}

}  // namespace

void* allocate_cuda(std::size_t bytes, int index, void* stream) {
  if (bytes == 0) return nullptr;
  CudaDevices* devices = present();
  return as_ours([&]() -> void* {
    if (devices == nullptr) [[unlikely]] devices = &make();
    if (devices->is_forked_child()) [[unlikely]] {
      throw std::runtime_error("cistern: a child of fork cannot allocate CUDA memory; start the process by spawn");
    }
    CudaDevice& device = devices->at(index);
    if (const auto fault = device.take_fault()) [[unlikely]] {
      throw std::runtime_error(std::string("cistern: of an earlier call: ") + fault->what());
    }
    Request request;
    request.bytes = bytes;
    request.stream = device.fences().identify(stream);
    request.pool = scoped_pool(device.allocator());
    const auto allocation = device.allocator().allocate(request);
    if (!allocation) [[unlikely]] throw std::runtime_error(allocation.error().explain());
    return reinterpret_cast<void*>(allocation->address);
  });
}

void free_cuda(void* data, std::size_t bytes, int index, void* stream) {
  if (data == nullptr) return;
  CudaDevices* devices = present();
  if (devices != nullptr && devices->is_forked_child()) return;
  CudaDevice* device = devices == nullptr ? nullptr : devices->find(index);
  std::optional<LiveBlock> block;
  if (device != nullptr) block = device->allocator().find(address_of(data));
  if (!block) misused(why_not_live(data, index));
  check_free(*device, *block, bytes, stream);
  try {
    if (device->allocator().free(block->address) != FreeOutcome::kNotLive) return;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "cistern: the host has no memory to wait for those who use %p; it is not freed\n", data);
    throw;
  }
  misused("cistern: free of " + hex(data) + " by two threads at once");
}

void record_cuda_stream(void* data, void* stream) {
  if (data == nullptr) return;
  CudaDevices* devices = present();
  if (devices != nullptr && devices->is_forked_child()) return;
  const auto owner = devices == nullptr ? std::nullopt : devices->find_owner(address_of(data));
  if (!owner) throw std::invalid_argument("cistern: record_stream of " + hex(data) + ", which is no live block");
  as_ours([&] { owner->allocator->record_stream(owner->block.address, owner->device->fences().identify(stream)); });
}

}  // namespace cistern
