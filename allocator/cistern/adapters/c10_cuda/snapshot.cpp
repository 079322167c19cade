// What there is on the devices, as torch's memory snapshots show it, and what torch says about history.
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <limits>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"

namespace cistern {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::SegmentInfo;

/// A block of ours, in torch's terms, at the end of the segment.
void add_block(SegmentInfo& segment, const BlockInfo& block,
               const std::unordered_map<Address, CudaHistory::Context>& contexts) {
  c10::CachingDeviceAllocator::BlockInfo out;
  out.size = block.bytes;
  out.allocated = block.state == BlockState::kActive;
  out.active = out.allocated || block.state == BlockState::kPending;
  out.requested_size = out.active ? block.requested_bytes : 0;
  if (const auto context = contexts.find(block.address); out.allocated && context != contexts.end()) {
    out.context_when_allocated = context->second;
  }
  segment.total_size += out.size;
  segment.requested_size += out.allocated ? out.requested_size : 0;
  segment.allocated_size += out.allocated ? out.size : 0;
  segment.active_size += out.active ? out.size : 0;
  segment.blocks.push_back(std::move(out));
}

/// One segment for each stretch with memory behind it: of a malloc range, the whole.
void add_segments(std::vector<SegmentInfo>& segments, const RangeInfo& range, const SegmentInfo& like,
                  const std::unordered_map<Address, CudaHistory::Context>& contexts) {
  bool open = false;
  for (const BlockInfo& block : range.blocks) {
    const bool memory = block.state != BlockState::kHole && block.state != BlockState::kClaimed;
    if (memory && !open) {
      segments.push_back(like);
      segments.back().address = block.address;
    }
    open = memory;
    if (memory) add_block(segments.back(), block, contexts);
  }
}

/// torch's settings as they are with cistern in charge, whatever its own variable says.
cca::AllocatorConfigInfo settings_of(const CudaDevices& devices) {
  using Config = cca::CUDAAllocatorConfig;
  cca::AllocatorConfigInfo info{};
  info.max_split_size = std::numeric_limits<std::size_t>::max();
  info.pinned_num_register_threads = Config::pinned_num_register_threads();
  info.pinned_use_host_register = Config::pinned_use_cuda_host_register();
  for (int index = 0; index < devices.count(); ++index) {
    CudaDevice* device = devices.find(index);
    info.expandable_segments = info.expandable_segments || (device != nullptr && device->vmm() != nullptr);
  }
  info.last_allocator_settings = c10::CachingAllocator::getAllocatorSettings();
  info.roundup_power2_divisions.assign(
      c10::CachingAllocator::AcceleratorAllocatorConfig::roundup_power2_divisions().size(), 0);
  return info;
}

}  // namespace

cca::SnapshotInfo CudaAllocator::snapshot(MempoolId id, bool include_traces) {
  cca::SnapshotInfo info;
  const auto contexts = history_.contexts();
  for (int index = 0; index < devices_.count(); ++index) {
    CudaDevice* device = devices_.find(index);
    if (device == nullptr) continue;
    tell_news(*device);
    const auto add_all = [&](const CachingAllocator& allocator) {
      for (const RangeInfo& range : allocator.snapshot()) {
        SegmentInfo like;
        like.device = static_cast<DeviceIndex>(index);
        like.stream = device->fences().handle_of(range.stream);
        like.is_large = !range.small;
        like.is_expandable = !allocator.source_traits().whole_only;
        like.owner_private_pool_id = pools_.id_of(&allocator, range.pool);
        if (id != MempoolId{0, 0} && like.owner_private_pool_id != id) continue;
        add_segments(info.segments, range, like, contexts);
      }
    };
    add_all(device->allocator());
    for (const auto& pool : device->foreign_pools()) add_all(pool->allocator);
    const auto active = device->allocator().stats().active.current;
    if (history_.listening()) history_.tell({CudaHistory::TraceEntry::SNAPSHOT, index, 0, active, nullptr, id});
  }
  std::sort(info.segments.begin(), info.segments.end(), [](const SegmentInfo& a, const SegmentInfo& b) {
    return std::pair(a.device, a.address) < std::pair(b.device, b.address);
  });
  if (include_traces) {
    info.device_traces = history_.traces(devices_.count(), id);
    info.external_annotations = history_.annotations();
  }
  info.config_metadata = settings_of(devices_);
  return info;
}

std::vector<cca::StreamSegmentSize> CudaAllocator::getExpandableSegmentSizes(DeviceIndex index) {
  std::vector<cca::StreamSegmentSize> sizes;
  CudaDevice* device = devices_.find(index);
  if (device == nullptr || device->vmm() == nullptr) return sizes;
  for (const RangeInfo& range : device->allocator().snapshot()) {
    if (range.pool != PoolId{} || range.committed_bytes == 0) continue;
    sizes.emplace_back(static_cast<cudaStream_t>(device->fences().handle_of(range.stream)), range.small,
                       range.committed_bytes);
  }
  return sizes;
}

void CudaAllocator::recordHistory(bool enabled, CudaHistory::CreateContext create_context, std::size_t most_entries,
                                  CudaHistory::RecordContext when, bool clear,
                                  const std::vector<std::string>& skipped_actions) {
  TORCH_CHECK(when == CudaHistory::RecordContext::NEVER || create_context != nullptr || !enabled,
              "cistern: recordHistory was asked for stacks without a function that gathers them");
  if (enabled) {
    CudaHistory::Settings settings{create_context, most_entries, when, {}};
    for (const std::string& action : skipped_actions) {
      settings.skipped.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
    }
    history_.start(std::move(settings), clear);
  } else {
    history_.stop();
  }
  for (int index = 0; index < devices_.count(); ++index) {
    if (CudaDevice* device = devices_.find(index)) device->listen(history_.listening());
  }
}

void CudaAllocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (!history_.recording()) return;
  c10::DeviceIndex index = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&index));
  history_.annotate(index, metadata);
}

void CudaAllocator::attachAllocatorTraceTracker(CudaHistory::Tracker tracker) {
  history_.attach(std::move(tracker));
  for (int index = 0; index < devices_.count(); ++index) {
    if (CudaDevice* device = devices_.find(index)) device->listen(true);
  }
}

}  // namespace cistern
