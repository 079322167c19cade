#include "cistern/adapters/c10_cuda/install.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/adapters/c10_cuda/environment.hpp"
#include "cistern/adapters/c10_cuda/torch_minor.hpp"
#include "cistern/adapters/own_trace.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/base/check.hpp"

namespace cistern {
namespace {

using Reason = InstallError::Reason;

std::atomic<CudaAllocator*> installed{nullptr};

CudaAllocator::CUDAAllocator* current_allocator() { return c10::cuda::CUDACachingAllocator::allocator.load(); }

/// What the allocator in charge holds, for whoever wonders who was there first.
std::string holdings(CudaAllocator::CUDAAllocator& other) {
  try {
    const auto stats = other.getDeviceStats(0);
    return ", which holds " + std::to_string(stats.allocation[0].current) + " blocks and " +
           format_bytes(static_cast<std::size_t>(stats.reserved_bytes[0].current)) + " of device 0";
  } catch (const std::exception&) {  // not every allocator counts
    return {};
  }
}

void warn(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

std::string name_of(int device) { return "cuda:" + std::to_string(device); }

/// The traces of Options::record, a file for each device. Never destroyed: frees outlive main.
std::vector<std::unique_ptr<OwnTrace>>& traces() {
  static auto& the = *std::make_unique<std::vector<std::unique_ptr<OwnTrace>>>().release();
  return the;
}

/// Requires the lock under which devices are made.
void prepare(CudaDevice& device) {
  const std::string name = name_of(device.index());
  register_device(name, device.allocator());
  const std::string& record = installed_cuda_allocator()->devices().options().record;
  if (record.empty()) return;
  traces().push_back(std::make_unique<OwnTrace>(record + "." + name, device.allocator()));
  if (traces().size() > 1) return;
  std::atexit([] {
    for (const auto& trace : traces()) trace->end();
  });
}

/// The devices that memory.hpp lists, whether used or not.
DeviceFamily family_of(const DriverApi& driver) {
  const auto index_of = [](std::string_view name) { return std::stoi(std::string(name.substr(name.find(':') + 1))); };
  DeviceFamily family;
  family.kind = "cuda";
  family.names = [driver] {
    std::vector<std::string> names;
    for (int device = 0; device < driver.device_count(); ++device) names.push_back(name_of(device));
    return names;
  };
  family.use = [index_of](std::string_view name) -> CachingAllocator& { return cuda_allocator(index_of(name)); };
  family.used_bytes = [driver, index_of](std::string_view name) -> std::optional<std::size_t> {
    if (installed_cuda_allocator()->devices().is_forked_child()) return std::nullopt;
    const DriverApi::Memory memory = driver.memory(index_of(name));
    return memory.total_bytes - memory.free_bytes;
  };
  return family;
}

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
  register_family(family_of(*driver));
  CudaAllocator* allocator =
      std::make_unique<CudaAllocator>(*driver, options, late ? before : nullptr, &prepare).release();
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
    throw InstallError(Reason::kInstalledOtherwise,
                       "cistern: CUDA memory is served by cistern already, with other options than these; install "
                       "once, and change limits through the allocator");
  }
}

CachingAllocator& cuda_allocator(int device) {
  CudaAllocator* allocator = installed_cuda_allocator();
  CISTERN_ASSERT(allocator != nullptr);
  if (!allocator->initialized()) allocator->init(allocator->devices().driver().device_count());
  return allocator->devices().at(device).allocator();
}

}  // namespace cistern
