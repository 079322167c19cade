// torch's interface to pinned memory, translated to cistern's; no policy here.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "cistern/adapters/c10_host/host_fences.hpp"
#include "cistern/adapters/c10_host/host_pools.hpp"
#include "cistern/adapters/c10_host/timed_source.hpp"
#include "cistern/adapters/own_trace.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {

/// One in a process, never destroyed: tensors outlive main. Runs out by c10::OutOfMemoryError; driver faults are
/// c10::Error.
/// Threads: all members from any thread at once.
class PinnedAllocator final : public at::HostAllocator {
 public:
  /// `previous`, if any, is told of uses of blocks that it granted.
  PinnedAllocator(DriverApi driver, const Options& options, at::HostAllocator* previous);

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool record_event(void* data, void* context, c10::Stream stream) override;
  void empty_cache() override;
  at::HostStats get_stats() override;
  void reset_accumulated_stats() override;
  void reset_peak_stats() override;
  void begin_allocate_to_pool(c10::MempoolId_t id, std::function<bool(c10::Stream)> filter) override;
  void end_allocate_to_pool(c10::MempoolId_t id) override;
  void release_pool(c10::MempoolId_t id) override;

  /// Makes it, with the current device's context, if nobody allocated before. Fails with DriverError.
  CachingAllocator& core() { return parts().core; }

  // For pthread_atfork. In a child pinned memory is the parent's: frees are swallowed, and nothing can be pinned.
  void before_fork();
  void after_fork();
  void after_fork_in_child();

  void end_trace() noexcept;

 private:
  /// What needs a device.
  struct Parts {
    Parts(const DriverApi& driver, int device, const Options& options);
    TimedSource source;
    HostFences fences;
    std::unique_ptr<OwnTrace> trace;  ///< Outlives core, whose end it is told of.
    CachingAllocator core;
    HostPools pools;
  };

  static void delete_block(void* context);

  Parts* find_parts() const noexcept { return parts_.load(std::memory_order_acquire); }
  Parts& parts();
  void free(void* context);

  const DriverApi driver_;
  const Options options_;
  at::HostAllocator* const previous_;
  std::mutex making_mutex_;
  std::atomic<Parts*> parts_{nullptr};  ///< Written under making_mutex_, once.
  std::atomic<bool> forked_{false};
};

/// The one in charge of this process, or nothing.
PinnedAllocator* installed_pinned_allocator() noexcept;

}  // namespace cistern
