// torch's CUDA allocator interface, translated to cistern's; no policy here.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cistern/adapters/c10_common.hpp"
#include "cistern/adapters/c10_cuda/history.hpp"
#include "cistern/adapters/c10_cuda/pools.hpp"
#include "cistern/adapters/c10_cuda/torch_minor.hpp"
#include "cistern/adapters/cuda_devices.hpp"

namespace cistern {

/// One in a process, never destroyed: tensors outlive main. Runs out by c10::OutOfMemoryError; misuse and driver faults
/// are c10::Error; see the files for what each subject promises.
/// Threads: all members from any thread at once.
class CudaAllocator final : public TorchCudaAllocator {
 public:
  using CUDAAllocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;
  using DeviceIndex = c10::DeviceIndex;
  using MempoolId = c10::MempoolId_t;

  /// `previous`, if any, gets pointers back that it granted. `made` is told of each device's allocator.
  CudaAllocator(DriverApi driver, const Options& options, CUDAAllocator* previous,
                std::function<void(CudaDevice&)> made);

  CudaDevices& devices() noexcept { return devices_; }

  // Allocating and freeing (cuda_allocator.cpp).
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* data) override;
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
  void init(int device_count) override;
  bool initialized() override;
  void enable(bool value) override { enabled_.store(value, std::memory_order_relaxed); }
  bool isEnabled() const override { return enabled_.load(std::memory_order_relaxed); }
  std::string name() override { return "cistern"; }

  // Limits and giving back (limits.cpp).
  void emptyCache(MempoolId id = {0, 0}) override;
  double getMemoryFraction(DeviceIndex index) override;
  void setMemoryFraction(double fraction, DeviceIndex index) override;
  void cacheInfo(DeviceIndex index, std::size_t* largest_bytes) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex index) override;

  // Statistics (statistics.cpp).
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex index) override;
  void resetAccumulatedStats(DeviceIndex index) override;
  void resetPeakStats(DeviceIndex index) override;

  // What there is, and what happened (snapshot.cpp).
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(MempoolId id = {0, 0}, bool include_traces = true) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex index) override;
  bool isHistoryEnabled() override { return history_.recording(); }
  void recordHistory(bool enabled, CudaHistory::CreateContext create_context, std::size_t most_entries,
                     CudaHistory::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped_actions) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) override;
  void pushCompileContext(std::string& text) override { CudaHistory::push_compile_context(text); }
  void popCompileContext() override { CudaHistory::pop_compile_context(); }
  void setUserMetadata(const std::string& text) override { CudaHistory::set_user_metadata(text); }
  std::string getUserMetadata() override { return CudaHistory::user_metadata(); }
  void attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(CudaHistory::Tracker tracker) override;

  // Pools (memory_pools.cpp).
  void beginAllocateToPool(DeviceIndex index, MempoolId id, std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(DeviceIndex index, MempoolId id) override;
  void releasePool(DeviceIndex index, MempoolId id) override;
  int getPoolUseCount(DeviceIndex index, MempoolId id) override;
  void createOrIncrefPool(DeviceIndex index, MempoolId id, std::shared_ptr<CUDAAllocator> foreign = nullptr) override;
  void setUseOnOOM(DeviceIndex index, MempoolId id, bool use_on_oom) override;
  void setNoSplit(DeviceIndex index, MempoolId id) override;
  bool checkPoolLiveAllocations(DeviceIndex index, MempoolId id, const std::unordered_set<void*>& expected) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(DeviceIndex index,
                                                                                      MempoolId id) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      DeviceIndex index, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;

  // Other devices (sharing.cpp) and processes (ipc.cpp).
  void* getBaseAllocation(void* data, std::size_t* bytes) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* data) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                          cudaStream_t stream, bool peers) override;

 private:
  /// What getDeviceStats subtracts or adds of one device.
  struct Counters {
    std::atomic<std::uint64_t> out_of_memory{0};
    std::atomic<std::uint64_t> retries_base{0}, commits_base{0}, decommits_base{0}, waits_base{0};
  };

  /// A block that other processes may map: its granules stay pinned until it is freed.
  struct Export {
    CudaDevice* device = nullptr;
    std::size_t bytes = 0;
    ExportedGranules granules;
  };

  static void delete_block(void* data);

  DeviceIndex current_device() const;
  CudaDevice& device_of(DeviceIndex index);
  void* take(DeviceIndex index, std::size_t bytes);
  void* take(CudaDevice& device, StreamId stream, std::size_t bytes);
  /// While pools are begun, somebody looks on, a fault waits to be told, or this is a child of fork.
  void* take_specially(CudaDevice& device, Request request);
  void* take_from(CudaDevice& device, CachingAllocator& allocator, const Request& request);
  void* take_observed(CudaDevice& device, CachingAllocator& allocator, const Request& request);
  /// False if nobody granted it.
  bool give(void* data);
  bool give_observed(void* data);
  /// Nobody granted it here.
  void raw_delete_foreign(void* data);
  /// The address is about to be freed.
  void end_export(Address address);
  bool observed() const;

  /// The rungs that torch adds below the core's: its callbacks, and pools that offer their memory; then gives up.
  Address retry_or_throw(CudaDevice& device, CachingAllocator& allocator, const Request& request,
                         const Failure& failure);
  [[noreturn]] void throw_out_of_memory(CudaDevice& device, const Request& request, const Failure& failure);

  void report_to_profiler(const CudaDevices::Owner& owner, std::int64_t change) const;
  void tell(CudaHistory::TraceEntry::Action action, const CudaDevices::Owner& owner, CudaHistory::Context context);
  /// Tells listeners of segments and completed frees since the last call. Called after what may have caused them.
  void tell_news(CudaDevice& device);
  void tell_segments(CudaDevice& device, WatchedSource& source, const CachingAllocator& allocator);

  CudaDevices devices_;
  CudaPools pools_;
  CudaHistory history_;
  CUDAAllocator* const previous_;
  const Misuse misuse_;
  std::atomic<bool> enabled_{true};
  std::array<Counters, CudaDevices::kMostDevices> counters_{};
  std::atomic<std::size_t> export_count_{0};
  std::mutex exports_mutex_;
  std::unordered_map<Address, Export> exports_;  ///< Guarded by exports_mutex_.
  std::mutex observers_mutex_;
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers_;  ///< Guarded by observers_mutex_.
};

/// The one in charge of this process, or nothing.
CudaAllocator* installed_cuda_allocator() noexcept;

}  // namespace cistern
