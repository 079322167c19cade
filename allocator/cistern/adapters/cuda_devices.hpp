// What cistern has of each CUDA device: a source, fences, and the allocators over them. Knows nothing of torch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cistern/adapters/watched_source.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/cuda/driver_api.hpp"
#include "cistern/sources/cuda/event_fences.hpp"
#include "cistern/sources/cuda/foreign_source.hpp"
#include "cistern/sources/cuda/vmm_source.hpp"

namespace cistern {

/// A pool whose segments come from somebody else's allocator: an allocator of its own, whose memory counts against the
/// device's limit too.
struct ForeignPool {
  ForeignPool(const Options& options, std::unique_ptr<WholeSource> foreign, EventFences& fences, DeviceId device,
              Budget& budget)
      : source(std::move(foreign)), allocator(options, source, &fences, device, &budget) {}
  WatchedSource source;
  CachingAllocator allocator;
};

class CudaDevice {
 public:
  /// Fails with DriverError, and with std::out_of_range when the limit is more than the device has.
  CudaDevice(const DriverApi& driver, int index, const Options& options);

  int index() const noexcept { return index_; }
  CachingAllocator& allocator() noexcept { return allocator_; }
  WatchedSource& source() noexcept { return source_; }
  EventFences& fences() noexcept { return fences_; }
  /// The source itself, if memory comes by granules.
  VmmSource* vmm() noexcept { return vmm_; }
  WholeSource* malloc() noexcept { return whole_; }
  /// Errors of the driver on paths that must not throw (a free, a look at a fence), for whoever can be told next.
  bool has_fault() noexcept { return fences_.faults().any() || source_faults().any(); }
  std::optional<DriverError> take_fault() {
    if (auto fault = fences_.faults().take()) return fault;
    return source_faults().take();
  }
  /// Why source:auto did not take vmm; empty if it did, or was not asked to choose.
  const std::string& fallback() const noexcept { return fallback_; }

  /// A word for each stream that the adapter has a small number for, to remember its identity in; 0 at first.
  static constexpr std::size_t kNumberedStreams = 1024;
  std::atomic<std::uint64_t>& numbered_stream(std::size_t number) noexcept { return numbered_streams_[number]; }

  /// Whether whoever takes segments from the sources of this device is to hear of them; those of later pools included.
  void listen(bool on);

  std::shared_ptr<ForeignPool> add_foreign_pool(ForeignAllocator foreign);
  /// Frees and look-ups find it no more. Requires that nothing of it is live.
  void remove_foreign_pool(const ForeignPool& pool);
  /// Cost: one load if there are none.
  std::vector<std::shared_ptr<ForeignPool>> foreign_pools() const;

 private:
  KeptFaults& source_faults() noexcept { return *source_faults_; }
  std::unique_ptr<MemorySource> make_source(const DriverApi& driver, SourceChoice choice);

  const int index_;
  const Options options_;
  VmmSource* vmm_ = nullptr;
  WholeSource* whole_ = nullptr;
  KeptFaults* source_faults_ = nullptr;
  std::string fallback_;
  WatchedSource source_;
  EventFences fences_;
  CachingAllocator allocator_;
  std::atomic<std::size_t> foreign_count_{0};
  std::array<std::atomic<std::uint64_t>, kNumberedStreams> numbered_streams_{};
  mutable std::mutex foreign_mutex_;
  bool listening_ = false;                             ///< Guarded by foreign_mutex_.
  std::vector<std::shared_ptr<ForeignPool>> foreign_;  ///< Guarded by foreign_mutex_.
};

/// The devices of the process. Each is made when it is first needed, as that makes its context, and never destroyed
/// before the whole.
/// Threads: all members from any thread at once.
class CudaDevices {
 public:
  static constexpr int kMostDevices = 128;

  /// `made` is called once for each device, before anybody else can find it.
  CudaDevices(DriverApi driver, Options options, std::function<void(CudaDevice&)> made);

  /// How many devices there are; grows only.
  void set_count(int count);
  int count() const noexcept { return count_.load(std::memory_order_acquire); }

  /// nullptr if it was not made yet, or there is none of that number. Cost: one load.
  CudaDevice* find(int index) const noexcept {
    const auto place = static_cast<unsigned>(index);
    return place < kMostDevices ? devices_[place].load(std::memory_order_acquire) : nullptr;
  }
  /// Makes it if need be. Fails with std::out_of_range for an index that names no device, as CudaDevice, and in a
  /// child of fork with std::runtime_error.
  CudaDevice& at(int index);

  struct Freed {
    FreeOutcome outcome = FreeOutcome::kNotLive;
    CudaDevice* device = nullptr;  ///< Whose block it was.
  };
  /// Whatever device is current. Fails as CachingAllocator::free.
  Freed free(Address address);

  /// Who granted the address, if somebody did.
  struct Owner {
    CudaDevice* device = nullptr;
    CachingAllocator* allocator = nullptr;
    std::shared_ptr<ForeignPool> foreign;  ///< Keeps `allocator`, if it is of a foreign pool.
    LiveBlock block;
  };
  std::optional<Owner> find_owner(Address address) const;

  /// True in a child of fork, where CUDA must not be touched: its memory belongs to the parent.
  bool is_forked_child() const noexcept { return forked_.load(std::memory_order_relaxed); }
  /// Frees that a child swallowed.
  std::uint64_t swallowed_frees() const noexcept { return swallowed_.load(std::memory_order_relaxed); }
  // For pthread_atfork: locks of all devices in order, so that a child may still read statistics.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  const DriverApi& driver() const noexcept { return driver_; }
  const Options& options() const noexcept { return options_; }

 private:
  /// Not of the device whose index the thread freed last.
  Freed free_elsewhere(Address address, CudaDevice* latest);

  const DriverApi driver_;
  const Options options_;
  const std::function<void(CudaDevice&)> made_;
  std::mutex making_mutex_;
  std::atomic<int> count_{0};
  std::array<std::atomic<CudaDevice*>, kMostDevices> devices_{};
  std::vector<std::unique_ptr<CudaDevice>> owned_;  ///< Guarded by making_mutex_.
  std::atomic<bool> forked_{false};
  std::atomic<std::uint64_t> swallowed_{0};
};

}  // namespace cistern
