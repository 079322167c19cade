// The allocator of one device: a ladder of seven rungs over heaps, a memory source and stream fences.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/base/result.hpp"
#include "cistern/core/address_map.hpp"
#include "cistern/core/allocation.hpp"
#include "cistern/core/budget.hpp"
#include "cistern/core/config.hpp"
#include "cistern/core/device_ledger.hpp"
#include "cistern/core/event_log.hpp"
#include "cistern/core/failure.hpp"
#include "cistern/core/growth_policy.hpp"
#include "cistern/core/heap.hpp"
#include "cistern/core/heap_directory.hpp"
#include "cistern/core/memory_source.hpp"
#include "cistern/core/planned_lanes.hpp"
#include "cistern/core/pool.hpp"
#include "cistern/core/stats.hpp"
#include "cistern/core/stream_fences.hpp"
#include "cistern/core/stream_ledger.hpp"

namespace cistern {

/// Threads: every member may be called from any thread at once.
/// Lock order: growth mutex, then the ledger's mutex, then heap locks in order of their numbers. Allocate and free of
/// a hit take one heap lock and nothing else.
class CachingAllocator {
 public:
  /// Requires that source and fences outlive the allocator. Without fences every free block is reusable at once by any
  /// stream: streams are then only shards that keep threads apart, and a miss looks into every shard before growing.
  /// What is reserved also counts against `shared`, the budget of another allocator on the same device.
  CachingAllocator(const Options& options, MemorySource& source, StreamFences* fences = nullptr, DeviceId device = {},
                   Budget* shared = nullptr);
  /// Requires that no block is live; gives everything back.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Cost: a hit is O(1), one uncontended lock, no host allocation, no source call. Fails as design.md section 3 says.
  Result<Allocation, Failure> allocate(const Request& request);
  /// The first rung alone, of a request with the least alignment: an address, or 0, and then allocate() has to be asked.
  /// Requires bytes > 0. Cost: as a hit of allocate(), without making a Result.
  Address allocate_at_once(std::size_t bytes, StreamId stream, PoolId pool);

  /// Cost: O(1), one uncontended lock, unless another stream used the block or trim:above_high_water acts.
  /// Fails with std::bad_alloc and the block still live, only if another stream used it and the host has no memory.
  FreeOutcome free(Address address);

  /// The live grant at the address, if there is one. Cost: O(1), one lock.
  std::optional<LiveBlock> find(Address address) const;
  /// Whether a block that starts there was freed, and a stream still uses it. Cost: O(such blocks of a heap), one lock.
  bool is_pending(Address address) const;
  /// The range that holds the address, be it granted or not. Cost: O(ranges of a heap), one lock.
  std::optional<RangePlace> find_range(Address address) const;

  /// Says that `stream` uses the block too: it is not granted again until the work queued there at the time of its free
  /// is done. No-op on the owner stream and without fences. False if no live grant has this address.
  /// Fails with std::bad_alloc and no change.
  bool record_stream(Address address, StreamId stream);

  /// Gives back idle memory (promise I13) until at most `keep_bytes` are reserved or nothing idle is left; under
  /// preallocate, keeps the preallocation. Waits for fences. Returns the bytes given back.
  std::size_t trim(std::size_t keep_bytes = 0);
  /// The same for the memory of one pool.
  std::size_t trim_pool(PoolId pool, std::size_t keep_bytes = 0);

  /// For trim:idle: gives back what has been free since the previous tick. Returns the bytes given back.
  std::size_t tick();

  /// Changes the limit of the device, or of a pool, with any strategy. Trims first; on return reserved <= limit.
  /// Fails with kInUse and what pins the rest, keeping the old limit.
  Result<std::size_t, Failure> set_limit(std::size_t limit_bytes, PoolId pool = {});
  void clear_limit(PoolId pool = {});
  std::size_t limit_bytes(PoolId pool = {}) const;

  /// How the next misses grow; what is reserved stays. From preallocate to another strategy, a trim may give the
  /// preallocation back; to preallocate, the next miss of a large block takes the rest of what there is to take.
  void set_strategy(Strategy strategy);
  /// What a later preallocation leaves free on the device.
  void set_headroom(std::size_t headroom_bytes);

  /// Fails: throws std::length_error beyond kMaxPools at once.
  PoolId create_pool(const PoolOptions& options = {});
  /// For allocations from now on; see PoolOptions::own_granules.
  void set_own_granules(PoolId pool, bool own);
  /// While a pool is held nothing of it is given back, remapped or trimmed, whatever asks. Counted.
  void hold_pool(PoolId pool);
  void release_pool(PoolId pool);
  /// The caller will not ask for memory of this pool again. Its blocks live on; when the last is freed and the memory
  /// was given back, the number is given out again.
  void retire_pool(PoolId pool);
  static constexpr std::size_t kMaxPools = 255;

  /// For another allocator on the same device whose memory is to count here too.
  Budget& budget() noexcept { return budget_; }

  Stats stats() const;
  void reset_peak();
  void reset_accumulated();

  /// Events go to the sink from now on until stop_recording, which delivers the last of them. One sink at a time.
  /// What is live when a recording starts is told first, as kReserve, kCommit and kAllocate events.
  void start_recording(EventSink& sink);
  void stop_recording();
  void mark(std::uint64_t number);

  /// All ranges and blocks at one instant, by heap and address. Cost: O(blocks), all locks.
  std::vector<RangeInfo> snapshot() const;
  /// Checks promises I1-I6 over every heap; aborts on a broken one, naming it. Cost: O(blocks), all locks.
  void audit() const;

  /// Around fork(): the child has only the forking thread, so no other may hold a lock at that moment.
  void lock_for_fork();
  void unlock_after_fork();

  const SourceTraits& source_traits() const noexcept { return source_.traits(); }
  /// As they are now.
  Options options() const;

 private:
  using Served = std::optional<Allocation>;
  enum class Refusal : std::uint8_t { kNone, kLimit, kSource };
  enum class Waiting : std::uint8_t { kNo, kYes };
  enum class Remapping : std::uint8_t { kNo, kYes };

  /// Promise I13, lazily: a fence on the owner stream that covers every free up to an epoch (see Heap::end_epoch).
  struct OwnerFence {
    FenceId fence;
    bool open = false;
    std::uint64_t covers = 0;      ///< Frees up to this epoch lie before the open fence.
    std::uint64_t idle_frees = 0;  ///< Frees up to this epoch are idle.
    std::uint64_t ticked = 0;      ///< Frees up to this epoch happened before the previous tick.
  };
  struct Grower {
    Refusal refusal = Refusal::kNone;
    std::size_t need_bytes = 0;  ///< What the last attempt would have had to commit.
  };

  /// SourceCalls that stats() may read while another thread is in the source.
  struct CallCounters {
    std::atomic<std::uint64_t> reserve{0}, commit{0}, decommit{0}, unreserve{0}, refused{0}, remapped_bytes{0};
    SourceCalls load() const noexcept { return {reserve, commit, decommit, unreserve, refused, remapped_bytes}; }
  };

  // The rungs, in order (caching_allocator.cpp). Those from grow on require the growth mutex.
  Need round(const Request& request) const noexcept;
  Served fit(Heap& heap, const Need& need);
  Served reap(Heap& heap, const Need& need);
  Served grow(Heap& heap, const Need& need, Grower& grower);
  Served trim(Heap& heap, const Need& need, Grower& grower, Waiting waiting);
  Served wait(Heap& heap, const Need& need, Grower& grower);
  Failure fail(Heap& heap, const Need& need, const Grower& grower);

  /// Rounds again, so that a hit need not keep its need in memory.
  Result<Allocation, Failure> miss(const Request& request);
  Result<Allocation, Failure> climb(Heap& heap, const Need& need);
  using Fit = Address (CachingAllocator::*)(Heap&, const Need&);  ///< 0: no block
  using Find = BlockIndex (Heap::*)(const Need&) noexcept;
  Served look(Heap& heap, const Need& need, Fit fit_one);
  Served fit_exactly(Heap& heap, const Need& need);
  /// A small need from the ranges for large blocks, or the other way: rather that than wait or fail.
  Served fit_in_other_ranges(Heap& heap, const Need& need);
  struct Hit {
    Address address = 0;  ///< 0: no block.
    bool wants_ledger = false;
  };
  Hit hit_in(Heap& heap, const Need& need);
  Address fit_in(Heap& heap, const Need& need);
  Address fit_exactly_in(Heap& heap, const Need& need);
  Address take_with_ledger(Heap& heap, const Need& need, Find find_block);
  Heap* heap_for(const Request& request);
  void fence_pending(Heap& heap, std::vector<StreamLedger::OpenFence>& users);
  void after_operation(Heap& heap, bool events_due);
  void deliver_events(Heap& heap);
  Pool& pool_of(PoolId pool) const;
  Budget& budget_of(PoolId pool);
  const Budget& budget_of(PoolId pool) const;
  bool held(const Heap& heap) const;
  void log_device(EventKind kind, std::size_t bytes, PoolId pool = {});
  void tell_live_state(std::vector<Event>& events);

  // Memory (growth.cpp). All require the growth mutex.
  bool commit_for(Heap& heap, const Need& need, Grower& grower);
  bool commit_whole(Heap& heap, const Need& need, Grower& grower);
  Refusal take_whole(Heap& heap, std::size_t bytes, RangeKind kind);
  bool take_segment(Heap& heap, std::size_t bytes, RangeKind kind);
  RangeKind kind_for(const Need& need) const noexcept;
  /// The budget, the source, the tables: all of it or nothing, and then the claim is given back.
  Refusal back_claim(Heap& heap, const Need& need, const Claim& claim, Remapping remapping);
  bool commit_claim(Heap& heap, const Claim& claim);
  bool reserve_range(Heap& heap, const Need& need);
  bool reserve_bytes(Heap& heap, std::size_t bytes, RangeKind kind);
  bool preallocates(const Heap& heap, const Need& need) const;  ///< Whether this miss is the one that does.
  std::size_t wish_bytes(const Heap& heap, const Need& need) const;
  /// Whether a miss still waits for the device to get at idle memory.
  Waiting patience() const noexcept;
  /// What will be reserved; tells the policy of remapping what will be active.
  std::size_t reserved_after(const Need& need, std::size_t commit_bytes);
  void remap_for(Heap& heap, const Need& need, std::size_t commit_bytes);
  /// A range that another stream of the pool has no use for, rather than more memory; true if the heap got one.
  bool take_over_range(Heap& heap, const Need& need);

  // Plans (plan_serving.cpp).
  PlannedLane* lane_of(const Request& request) const noexcept;
  /// At the place that the plan has for the next request of this heap; nothing if this is another request, or the place
  /// cannot be had.
  Served serve_planned(PlannedLane& lane, Heap& heap, const Need& need);
  Served grow_planned(PlannedLane& lane, Heap& heap, std::uint32_t place, const Need& need);
  /// Memory for the place, or at first a range for the lane. False if it cannot be had.
  bool commit_place(PlannedLane& lane, Heap& heap, std::uint32_t place, const Need& need);
  bool reserve_planned(PlannedLane& lane, Heap& heap);
  enum class PlaceOutcome : std::uint8_t { kTaken, kWantsLedger, kWantsMemory, kNotToBeHad };
  PlaceOutcome take_place(PlannedLane& lane, Heap& heap, std::uint32_t place, const Need& need, Address& address);

  // Giving back (trimming.cpp). All require the growth mutex.
  std::size_t decommit_idle(std::size_t bytes, const PoolId* pool, Waiting waiting, Heap* first = nullptr);
  std::size_t decommit_from(Heap& heap, std::size_t bytes, std::uint64_t idle_frees);
  void trim_above_high_water(Heap& heap);  ///< Takes the growth mutex itself, if it is free.
  void decommit_claim(Heap& heap, const Claim& claim);
  std::uint64_t idle_frees(Heap& heap, Waiting waiting);
  std::size_t trim_to(std::size_t keep_bytes, Budget& budget, const PoolId* pool);
  /// What there is to say of any failure: the state of the device, and of the heap that was asked, if one was.
  Failure failure_now(FailureCode code, std::size_t asked_bytes, const Heap* heap) const;
  Failure in_use_failure(std::size_t limit_bytes, const Budget& budget);

  // Streams (stream_waiting.cpp).
  void reap_heap(Heap& heap);
  void fence_again(Heap& heap);
  void attach_fences(Heap& heap, std::vector<StreamLedger::OpenFence>& users);
  bool order_owner_behind_fences(Heap& heap);
  bool wait_for_one_fence();
  void wait_for_all_fences();
  void close_fence(Heap& heap, const StreamLedger::OpenFence& fence, EventKind why);

  Options options_;  ///< Strategy and headroom are guarded by growth_mutex_; the rest never changes.
  MemorySource& source_;
  StreamFences* const fences_;
  const DeviceId device_;
  HeapRules rules_;

  mutable std::mutex growth_mutex_;
  mutable std::mutex reap_mutex_;  ///< After the growth mutex: whoever queries a fence may release it.
  Budget budget_;
  std::array<std::unique_ptr<Pool>, kMaxPools> pools_;  ///< Entry p-1 is pool p. Written under growth_mutex_.
  std::atomic<std::size_t> pool_count_{0};              ///< Written under growth_mutex_.
  std::vector<std::unique_ptr<Heap>> heaps_;           ///< Guarded by growth_mutex_.
  std::vector<OwnerFence> owner_fences_;               ///< Guarded by growth_mutex_; by heap number.
  std::uint64_t owner_wait_count_ = 0;                 ///< Guarded by growth_mutex_.
  std::size_t preallocated_bytes_ = 0;                 ///< Guarded by growth_mutex_.
  RemapPolicy remap_;                                  ///< Guarded by growth_mutex_.
  CallCounters source_calls_;
  DeviceLedger ledger_;
  HeapDirectory directory_;  ///< Of all heaps but those with a lane of the plan.
  std::unique_ptr<PlannedLanes> planned_;
  AddressMap addresses_;
  std::array<std::atomic<std::uint64_t>, kRungCount> served_{};

  EventLog log_;
  mutable SpinLock device_events_lock_;
  EventBuffer device_events_;  ///< Guarded by device_events_lock_.
};

inline void CachingAllocator::after_operation(Heap& heap, bool events_due) {
  if (events_due) [[unlikely]] deliver_events(heap);
#ifdef CISTERN_AUDIT
  audit();
#endif
}

}  // namespace cistern
