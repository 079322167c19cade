// torch's memory pools (CUDA graphs, MemPool) on the core's.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cistern/adapters/cuda_devices.hpp"

namespace cistern {

/// Which pool of which allocator serves a request.
struct PoolPlace {
  CachingAllocator* allocator = nullptr;
  PoolId pool{};
  std::shared_ptr<ForeignPool> foreign{};  ///< Keeps the allocator, if it is one of a foreign pool.
  c10::MempoolId_t id{0, 0};
};

/// The pools by the ids that torch gives them. A pool with uses is held: its memory stays. After its last release the
/// memory may go at the next emptyCache or miss, and its blocks live on; until then it can be used again under its id.
/// Threads: all members from any thread at once. Filters, the core and foreign allocators are called without mutex_;
/// changes_mutex_ serialises what makes, holds and retires pools, and no allocation or free takes it.
class CudaPools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;
  using Foreign = std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator>;

  void create_or_use(CudaDevice& device, c10::MempoolId_t id, Foreign foreign = nullptr);
  /// As torch's releasePool; a pool nobody uses, or ever made, is left as it is.
  void release(int device, c10::MempoolId_t id);
  int use_count(int device, c10::MempoolId_t id) const;
  void set_use_on_oom(int device, c10::MempoolId_t id, bool use);
  void set_no_split(int device, c10::MempoolId_t id);

  /// From now on requests of streams that pass the filter go to the pool, the latest begun first. Counts as a use.
  void begin(CudaDevice& device, c10::MempoolId_t id, Filter filter);
  /// Ends the latest begin of that pool. Fails with c10::Error if there is none.
  void end(int device, c10::MempoolId_t id);
  /// Whether any begin has no end yet. Cost: one load.
  bool routing() const noexcept { return routing_.load(std::memory_order_acquire) != 0; }
  /// The pool that wants requests of that stream; nothing if none does.
  std::optional<PoolPlace> route(int device, cudaStream_t stream) const;
  /// Pools that offer their memory when the rest has none left.
  std::vector<PoolPlace> willing_on_oom(int device) const;

  std::optional<PoolPlace> find(int device, c10::MempoolId_t id) const;
  /// torch's id of a core's pool; {0, 0} if it has none any more.
  c10::MempoolId_t id_of(const CachingAllocator* allocator, PoolId pool) const;

  /// Gives back the idle memory of that pool, if nobody uses it, and forgets it.
  void empty(CudaDevice& device, c10::MempoolId_t id);
  /// The same for all pools of the device that nobody uses.
  void empty_unused(CudaDevice& device);

 private:
  using Key = std::pair<int, c10::MempoolId_t>;
  struct Entry {
    PoolPlace place;
    int uses = 0;
    bool use_on_oom = false;
  };
  struct Active {
    Key key;
    PoolPlace place;
    Filter filter;
  };

  PoolPlace make(CudaDevice& device, c10::MempoolId_t id, const Foreign& foreign);
  void empty_unused_locked(CudaDevice& device);  ///< Requires changes_mutex_.
  bool is_named(const ForeignPool& foreign) const;
  void forget(CudaDevice& device, const PoolPlace& place);

  std::mutex changes_mutex_;  ///< Before mutex_, and before the locks of the core.
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;                            ///< Guarded by mutex_.
  std::vector<std::shared_ptr<const Active>> active_;       ///< Guarded by mutex_.
  std::atomic<std::size_t> routing_{0};
};

}  // namespace cistern
