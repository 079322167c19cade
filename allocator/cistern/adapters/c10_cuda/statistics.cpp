// Our statistics in torch's terms.
#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"

namespace cistern {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

void fill(StatArray& array, const Stats& stats, Stat BlockStats::*stat) {
  const auto put = [&](StatType type, const BlockStats& of) {
    array[static_cast<std::size_t>(type)] = as_torch(of.*stat);
  };
  put(StatType::AGGREGATE, stats);
  put(StatType::SMALL_POOL, stats.of_class[kSmallBlocks]);
  put(StatType::LARGE_POOL, stats.of_class[kLargeBlocks]);
}

std::uint64_t retries(const Stats& stats) {
  const auto served = [&](Rung rung) { return stats.served[static_cast<std::size_t>(rung)]; };
  return served(Rung::kTrim) + served(Rung::kWait) + served(Rung::kFail);
}

std::uint64_t waits(const Stats& stats) { return stats.served[static_cast<std::size_t>(Rung::kWait)]; }

}  // namespace

c10::CachingDeviceAllocator::DeviceStats CudaAllocator::getDeviceStats(DeviceIndex index) {
  c10::CachingDeviceAllocator::DeviceStats out;
  out.max_split_size = -1;  // every size may be split
  CudaDevice* device = devices_.find(index);
  if (device == nullptr) return out;
  const Stats stats = device->allocator().stats();
  fill(out.allocation, stats, &BlockStats::allocations);
  fill(out.segment, stats, &BlockStats::segments);
  fill(out.active, stats, &BlockStats::active_blocks);
  fill(out.inactive_split, stats, &BlockStats::inactive_split_blocks);
  fill(out.allocated_bytes, stats, &BlockStats::allocated);
  fill(out.reserved_bytes, stats, &BlockStats::reserved);
  fill(out.active_bytes, stats, &BlockStats::active);
  fill(out.inactive_split_bytes, stats, &BlockStats::inactive_split);
  fill(out.requested_bytes, stats, &BlockStats::requested);
  const Counters& counters = counters_[static_cast<std::size_t>(index)];
  out.num_alloc_retries = static_cast<std::int64_t>(retries(stats) - counters.retries_base.load());
  out.num_ooms = static_cast<std::int64_t>(counters.out_of_memory.load());
  out.num_sync_all_streams = static_cast<std::int64_t>(waits(stats) - counters.waits_base.load());
  out.num_device_alloc = static_cast<std::int64_t>(stats.source_calls.commit - counters.commits_base.load());
  out.num_device_free = static_cast<std::int64_t>(stats.source_calls.decommit - counters.decommits_base.load());
  return out;
}

void CudaAllocator::resetAccumulatedStats(DeviceIndex index) {
  CudaDevice* device = devices_.find(index);
  if (device == nullptr) return;
  device->allocator().reset_accumulated();
  const Stats stats = device->allocator().stats();
  Counters& counters = counters_[static_cast<std::size_t>(index)];
  counters.retries_base = retries(stats);
  counters.waits_base = waits(stats);
  counters.commits_base = stats.source_calls.commit;
  counters.decommits_base = stats.source_calls.decommit;
  counters.out_of_memory = 0;
}

void CudaAllocator::resetPeakStats(DeviceIndex index) {
  if (CudaDevice* device = devices_.find(index)) device->allocator().reset_peak();
}

}  // namespace cistern
