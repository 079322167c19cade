#include "cistern/adapters/c10_host/install.hpp"

#include <pthread.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "cistern/adapters/c10_cuda/torch_minor.hpp"
#include "cistern/adapters/c10_host/host_allocator.hpp"
#include "cistern/adapters/memory.hpp"
#include "cistern/adapters/registry.hpp"

namespace cistern {
namespace {

std::atomic<PinnedAllocator*> installed{nullptr};

Options with_environment(Options options) {
  const char* name = "TF_GPU_HOST_MEM_LIMIT_IN_MB";
  const char* value = std::getenv(name);
  if (value == nullptr || options.limit) return options;
  const std::string_view text = value;
  std::size_t mebibytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mebibytes);
  if (error != std::errc{} || end != text.data() + text.size() || mebibytes == 0 || mebibytes > (kGiB * kGiB) / kMiB) {
    throw std::invalid_argument(std::string("cistern: ") + name + "='" + value + "' is no number of mebibytes");
  }
  options.limit = Amount{mebibytes * kMiB};
  return options;
}

/// torch's own, which is there if libtorch_cuda is.
at::HostAllocator* current_allocator() {
  try {
    return at::getHostAllocator(c10::kCUDA);
  } catch (const c10::Error&) {
    return nullptr;
  }
}

DeviceFamily family_of(PinnedAllocator& allocator) {
  DeviceFamily family;
  family.kind = "pinned";
  family.names = [] { return std::vector<std::string>{"pinned"}; };
  family.use = [&allocator](std::string_view) -> CachingAllocator& { return allocator.core(); };
  return family;
}

}  // namespace

PinnedAllocator* installed_pinned_allocator() noexcept { return installed.load(std::memory_order_acquire); }

void install_pinned(const Options& options) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (installed_pinned_allocator() != nullptr) return;
  if (const std::string why = why_not_torch(running_torch_version()); !why.empty()) throw std::runtime_error(why);
  const Options wanted = with_environment(options);
  if (wanted.strategy == Strategy::kPreallocate && !wanted.limit && wanted.preallocate == Amount{}) {
    throw MemoryError(MemoryError::Reason::kNoAmount,
                      "cistern: preallocation of pinned memory needs a limit or an amount, or it would take all of the host's");
  }
  const auto driver = DriverApi::from_process();
  if (!driver) throw std::runtime_error(std::string("cistern: no CUDA runtime: ") + driver.error().what());
  auto made = std::make_unique<PinnedAllocator>(*driver, wanted, current_allocator());
  register_family(family_of(*made));
  PinnedAllocator* allocator = made.release();
  installed.store(allocator, std::memory_order_release);
  at::setHostAllocator(c10::kCUDA, allocator, 255);
  pthread_atfork([] { installed.load()->before_fork(); }, [] { installed.load()->after_fork(); },
                 [] { installed.load()->after_fork_in_child(); });
  if (!wanted.record.empty()) std::atexit([] { installed.load()->end_trace(); });
}

}  // namespace cistern
