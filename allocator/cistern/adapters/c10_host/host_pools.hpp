// Pinned memory of CUDA graphs: what a graph copies from at each replay must stay what it was.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "cistern/core/caching_allocator.hpp"

namespace cistern {

/// torch's pools by their ids. While a pool has uses, its memory stays; and a block of it that a stream used is not granted
/// again after its free, since a replay uses it again.
/// Threads: all members from any thread at once. Filters and the core are called without mutex_; changes_mutex_
/// serialises what makes and retires pools.
class HostPools {
 public:
  using Filter = std::function<bool(c10::Stream)>;

  explicit HostPools(CachingAllocator& core) : core_(core) {}

  /// Requests of streams that pass the filter go to the pool from now on. Counts as a use.
  /// Fails with c10::Error if that pool has begun already.
  void begin(c10::MempoolId_t id, Filter filter);
  /// Fails with c10::Error if that pool has not begun.
  void end(c10::MempoolId_t id);
  /// One use less; after the last, what was kept is free and goes back. Fails with c10::Error for a pool without uses.
  void release(c10::MempoolId_t id);

  /// Whether any pool has begun. Cost: one load.
  bool routing() const noexcept { return routing_.load(std::memory_order_acquire); }
  std::optional<PoolId> route(c10::Stream stream) const;

  /// As CachingAllocator::free, but a block that a graph may use again is kept.
  FreeOutcome free(Address address);

 private:
  struct Entry {
    PoolId pool{};
    int uses = 0;
    std::set<Address> kept{};  ///< Freed by their owners, live to the core.
  };
  struct Begun {
    c10::MempoolId_t id;
    PoolId pool{};
    Filter filter;
  };
  Entry* entry_of(PoolId pool);  ///< Requires mutex_.

  CachingAllocator& core_;
  std::mutex changes_mutex_;  ///< Before mutex_ and the locks of the core.
  mutable std::mutex mutex_;
  std::map<c10::MempoolId_t, Entry> entries_;  ///< Guarded by mutex_.
  std::vector<Begun> begun_;                   ///< Guarded by mutex_.
  std::atomic<bool> routing_{false};
  std::atomic<bool> any_{false};  ///< Whether there are entries.
};

}  // namespace cistern
