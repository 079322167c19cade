// torch's calls about pools.
#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"

namespace cistern {
namespace {

[[noreturn]] void no_checkpoints() {
  C10_THROW_ERROR(Error,
                  "cistern: checkpointing the state of a memory pool is not supported; set "
                  "torch._inductor.config.triton.cudagraph_trees = False, or use another mode than reduce-overhead");
}

}  // namespace

void CudaAllocator::beginAllocateToPool(DeviceIndex index, MempoolId id, std::function<bool(cudaStream_t)> filter) {
  as_torch_errors([&] { pools_.begin(device_of(index), id, std::move(filter)); });
}

void CudaAllocator::endAllocateToPool(DeviceIndex index, MempoolId id) { pools_.end(index, id); }

void CudaAllocator::releasePool(DeviceIndex index, MempoolId id) { pools_.release(index, id); }

int CudaAllocator::getPoolUseCount(DeviceIndex index, MempoolId id) { return pools_.use_count(index, id); }

void CudaAllocator::createOrIncrefPool(DeviceIndex index, MempoolId id, std::shared_ptr<CUDAAllocator> foreign) {
  as_torch_errors([&] { pools_.create_or_use(device_of(index), id, std::move(foreign)); });
}

void CudaAllocator::setUseOnOOM(DeviceIndex index, MempoolId id, bool use_on_oom) {
  pools_.set_use_on_oom(index, id, use_on_oom);
}

void CudaAllocator::setNoSplit(DeviceIndex index, MempoolId id) { pools_.set_no_split(index, id); }

bool CudaAllocator::checkPoolLiveAllocations(DeviceIndex index, MempoolId id,
                                             const std::unordered_set<void*>& expected) {
  const auto place = pools_.find(index, id);
  TORCH_CHECK(place, "cistern: device ", static_cast<int>(index), " has no pool (", id.first, ", ", id.second, ")");
  std::size_t live = 0;
  for (const RangeInfo& range : place->allocator->snapshot()) {
    if (range.pool != place->pool) continue;
    for (const BlockInfo& block : range.blocks) {
      if (block.state != BlockState::kActive) continue;
      if (expected.count(reinterpret_cast<void*>(block.address)) == 0) return false;
      ++live;
    }
  }
  return live == expected.size();
}

// torch's cudagraph trees rewind a pool to what it was at an earlier capture, block by block; the core places blocks
// where they fit best and has no way back.
std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> CudaAllocator::getCheckpointState(DeviceIndex,
                                                                                                   MempoolId) {
  no_checkpoints();
}

c10::cuda::CUDACachingAllocator::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    DeviceIndex, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState>) {
  no_checkpoints();
}

}  // namespace cistern
