#include "cistern/adapters/cuda_devices.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "cistern/base/units.hpp"
#include "cistern/sources/cuda/malloc_source.hpp"

namespace cistern {
namespace {

/// The device that this thread's latest free belonged to: most often the next one's, too.
[[gnu::tls_model("initial-exec")]] thread_local int latest_device = 0;

}  // namespace

CudaDevice::CudaDevice(const DriverApi& driver, int index, const Options& options)
    : index_(index),
      options_(options),
      source_(make_source(driver, options.source)),
      fences_(driver, index),
      allocator_(options, source_, &fences_, DeviceId{static_cast<std::uint16_t>(index)}) {
  const std::size_t capacity = source_.traits().capacity_bytes;
  if (!options.limit || options.limit->bytes <= capacity) return;
  throw std::out_of_range("cistern: a limit of " + format_bytes(options.limit->bytes) + " is more than CUDA device " +
                          std::to_string(index) + " has, " + format_bytes(capacity));
}

std::unique_ptr<MemorySource> CudaDevice::make_source(const DriverApi& driver, SourceChoice choice) {
  if (choice == SourceChoice::kAuto) {
    const auto why = driver.why_no_vmm(index_);
    if (why) fallback_ = why->what();
    choice = why ? SourceChoice::kMalloc : SourceChoice::kVmm;
  }
  if (choice == SourceChoice::kVmm) {
    auto source = std::make_unique<VmmSource>(driver, index_);
    vmm_ = source.get();
    source_faults_ = &source->faults();
    return source;
  }
  auto source = make_malloc_source(driver, index_);
  whole_ = source.get();
  source_faults_ = &source->faults();
  return source;
}

void CudaDevice::listen(bool on) {
  const std::scoped_lock lock(foreign_mutex_);
  listening_ = on;
  source_.listen(on);
  for (const auto& pool : foreign_) pool->source.listen(on);
}

std::shared_ptr<ForeignPool> CudaDevice::add_foreign_pool(ForeignAllocator foreign) {
  Options options = options_;
  options.limit.reset();  // the device's own counts
  options.strategy = Strategy::kGrowth;
  ForeignOptions of_device;
  of_device.capacity_bytes = source_.traits().capacity_bytes;
  auto pool = std::make_shared<ForeignPool>(options, make_foreign_source(std::move(foreign), of_device), fences_,
                                            DeviceId{static_cast<std::uint16_t>(index_)}, allocator_.budget());
  const std::scoped_lock lock(foreign_mutex_);
  foreign_.push_back(pool);
  pool->source.listen(listening_);
  foreign_count_.store(foreign_.size(), std::memory_order_release);
  return pool;
}

void CudaDevice::remove_foreign_pool(const ForeignPool& pool) {
  std::shared_ptr<ForeignPool> last;  // goes when no lock is held: its segments go back to somebody else's code
  const std::scoped_lock lock(foreign_mutex_);
  const auto found =
      std::find_if(foreign_.begin(), foreign_.end(), [&](const auto& one) { return one.get() == &pool; });
  if (found == foreign_.end()) return;
  last = std::move(*found);
  foreign_.erase(found);
  foreign_count_.store(foreign_.size(), std::memory_order_release);
}

std::vector<std::shared_ptr<ForeignPool>> CudaDevice::foreign_pools() const {
  if (foreign_count_.load(std::memory_order_acquire) == 0) return {};
  const std::scoped_lock lock(foreign_mutex_);
  return foreign_;
}

CudaDevices::CudaDevices(DriverApi driver, Options options, std::function<void(CudaDevice&)> made)
    : driver_(std::move(driver)), options_(std::move(options)), made_(std::move(made)) {}

void CudaDevices::set_count(int count) {
  const std::scoped_lock lock(making_mutex_);
  if (count > this->count()) count_.store(std::min(count, kMostDevices), std::memory_order_release);
}

CudaDevice& CudaDevices::at(int index) {
  if (CudaDevice* device = find(index)) [[likely]] return *device;
  if (is_forked_child()) throw std::runtime_error("cistern: a child of fork cannot use CUDA memory; start it by spawn");
  const std::scoped_lock lock(making_mutex_);
  if (index < 0 || index >= count()) {
    throw std::out_of_range("cistern: there is no CUDA device " + std::to_string(index) + "; there are " +
                            std::to_string(count()));
  }
  if (CudaDevice* device = find(index)) return *device;
  owned_.reserve(owned_.size() + 1);
  auto owned = std::make_unique<CudaDevice>(driver_, index, options_);
  CudaDevice& device = *owned;
  if (owned_.empty() && !device.fallback().empty()) {
    std::fprintf(stderr, "cistern: source:auto takes memory by cudaMalloc, because %s\n", device.fallback().c_str());
  }
  made_(device);
  owned_.push_back(std::move(owned));
  devices_[static_cast<unsigned>(index)].store(&device, std::memory_order_release);
  return device;
}

CudaDevices::Freed CudaDevices::free(Address address) {
  if (is_forked_child()) [[unlikely]] {
    swallowed_.fetch_add(1, std::memory_order_relaxed);
    return {FreeOutcome::kFreed, nullptr};
  }
  CudaDevice* latest = find(latest_device);
  if (latest != nullptr) [[likely]] {
    const FreeOutcome outcome = latest->allocator().free(address);
    if (outcome != FreeOutcome::kNotLive) [[likely]] return {outcome, latest};
  }
  return free_elsewhere(address, latest);
}

[[gnu::noinline]] CudaDevices::Freed CudaDevices::free_elsewhere(Address address, CudaDevice* latest) {
  for (int index = 0; index < count(); ++index) {
    CudaDevice* device = find(index);
    if (device == nullptr || device == latest) continue;
    const FreeOutcome outcome = device->allocator().free(address);
    if (outcome == FreeOutcome::kNotLive) continue;
    latest_device = index;
    return {outcome, device};
  }
  for (int index = 0; index < count(); ++index) {
    CudaDevice* device = find(index);
    if (device == nullptr) continue;
    for (const auto& pool : device->foreign_pools()) {
      const FreeOutcome outcome = pool->allocator.free(address);
      if (outcome != FreeOutcome::kNotLive) return {outcome, device};
    }
  }
  return {};
}

std::optional<CudaDevices::Owner> CudaDevices::find_owner(Address address) const {
  for (int index = 0; index < count(); ++index) {
    CudaDevice* device = find(index);
    if (device == nullptr) continue;
    if (const auto block = device->allocator().find(address)) {
      return Owner{device, &device->allocator(), nullptr, *block};
    }
    for (const auto& pool : device->foreign_pools()) {
      if (const auto block = pool->allocator.find(address)) return Owner{device, &pool->allocator, pool, *block};
    }
  }
  return std::nullopt;
}

void CudaDevices::before_fork() {
  making_mutex_.lock();
  for (const auto& device : owned_) device->allocator().lock_for_fork();
}

void CudaDevices::after_fork_in_parent() {
  for (const auto& device : owned_) device->allocator().unlock_after_fork();
  making_mutex_.unlock();
}

void CudaDevices::after_fork_in_child() {
  if (!owned_.empty()) forked_.store(true, std::memory_order_relaxed);
  after_fork_in_parent();
}

}  // namespace cistern
