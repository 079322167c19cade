#include "cistern/adapters/c10_cuda/install.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/adapters/c10_cuda/environment.hpp"
#include "cistern/adapters/c10_cuda/torch_minor.hpp"
#include "cistern/adapters/cuda_registration.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/base/check.hpp"
#include "cistern/observe/plan_file.hpp"

namespace cistern {
namespace {

using Reason = InstallError::Reason;

std::atomic<CudaAllocator*> installed{nullptr};
std::chrono::steady_clock::time_point installed_at;  // written before `installed`

CudaAllocator::CUDAAllocator* current_allocator() { return c10::cuda::CUDACachingAllocator::allocator.load(); }

/// When the allocator in charge was there first, in its own time, and what it holds.
std::string holdings(CudaAllocator::CUDAAllocator& other) {
  try {
    const auto stats = other.getDeviceStats(0);
    return ", since " + std::to_string(stats.allocation[0].allocated) + " allocations on device 0, of which it holds " +
           std::to_string(stats.allocation[0].current) + " blocks and " +
           format_bytes(static_cast<std::size_t>(stats.reserved_bytes[0].current));
  } catch (const std::exception&) {  // not every allocator counts
    return {};
  }
}

void warn(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

void install_first(const Options& options, IfInitialised if_initialised) {
  if (const std::string why = why_not_torch(running_torch_version()); !why.empty()) {
    throw InstallError(Reason::kWrongTorch, why);
  }
  CudaAllocator::CUDAAllocator* before = current_allocator();
  const bool late = before != nullptr && before->initialized();
  if (late && if_initialised == IfInitialised::kRefuse) {
    throw InstallError(Reason::kInitialisedBefore,
                       "cistern: CUDA memory is served by torch's allocator '" + before->name() + "' already" +
                           holdings(*before) +
                           "; install before the first CUDA tensor, or ask for IfInitialised::kTakeOver");
  }
  auto driver = DriverApi::from_process();
  if (!driver) {
    throw InstallError(Reason::kNoRuntime, std::string("cistern: no CUDA runtime: ") + driver.error().what());
  }
  if (find_family("cuda") != nullptr) {
    throw InstallError(Reason::kInitialisedBefore,
                       "cistern: cistern_alloc of the C interface serves CUDA memory of this process already; the plug "
                       "would be a second cache beside it");
  }
  auto made = std::make_unique<CudaAllocator>(
      *driver, with_plan(options), late ? before : nullptr,
      [record = options.record](CudaDevice& device) { register_cuda_device(device, record); });
  register_cuda_family(made->devices());
  CudaAllocator* allocator = made.release();
  installed_at = std::chrono::steady_clock::now();
  installed.store(allocator, std::memory_order_release);
  c10::cuda::CUDACachingAllocator::allocator.store(allocator);
  c10::SetAllocator(c10::kCUDA, allocator, 255);
  // A child has only the forking thread, and no CUDA: it may look at statistics.
  pthread_atfork([] { installed.load()->devices().before_fork(); },
                 [] { installed.load()->devices().after_fork_in_parent(); },
                 [] { installed.load()->devices().after_fork_in_child(); });
}

}  // namespace

CudaAllocator* installed_cuda_allocator() noexcept { return installed.load(std::memory_order_acquire); }

void install_cuda(const Options& options, IfInitialised if_initialised) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  CudaAllocator* present = installed_cuda_allocator();
  const Options wanted = with_environment(options, present == nullptr ? warn : [](const std::string&) {});
  if (present == nullptr) return install_first(wanted, if_initialised);
  if (!(wanted == present->devices().options())) {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - installed_at;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", since.count());
    throw InstallError(Reason::kInstalledOtherwise,
                       std::string("cistern: CUDA memory is served by cistern already, installed ") + seconds +
                           " s ago with other options than these; install once, and change limits through the allocator");
  }
}

CachingAllocator& cuda_allocator(int device) {
  CudaAllocator* allocator = installed_cuda_allocator();
  CISTERN_ASSERT(allocator != nullptr);
  if (!allocator->initialized()) allocator->init(allocator->devices().driver().device_count());
  return allocator->devices().at(device).allocator();
}

}  // namespace cistern
