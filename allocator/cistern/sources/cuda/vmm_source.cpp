#include "cistern/sources/cuda/vmm_source.hpp"

#include <algorithm>
#include <string>

#include "cistern/base/check.hpp"
#include "cistern/base/units.hpp"
#include "cistern/sources/cuda/driver_functions.hpp"

namespace cistern {
namespace {

CUmemAllocationProp properties(int device, bool exportable, bool remote_access) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  if (exportable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = remote_access ? 1 : 0;
  return properties;
}

}  // namespace

VmmSource::VmmSource(const DriverApi& api, int device, const VmmOptions& options)
    : api_(api), functions_(api_.functions()), device_(device), devices_{device} {
  if (const auto missing = api_.why_no_vmm(device)) throw *missing;
  exportable_ = has_attribute(functions_, device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  remote_access_ = has_attribute(functions_, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  const CUmemAllocationProp wanted = properties(device_, exportable_, remote_access_);
  std::size_t granularity = 0;
  functions_.check("cuMemGetAllocationGranularity",
                   functions_.cuMemGetAllocationGranularity(
                       &granularity, &wanted,
                       options.granule_bytes == 0 ? CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
                                                  : CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  traits_.name = "vmm";
  traits_.granule_bytes = options.granule_bytes == 0 ? granularity : options.granule_bytes;
  CISTERN_CHECK_EQ(traits_.granule_bytes & (traits_.granule_bytes - 1), std::size_t{0});
  CISTERN_CHECK_EQ(traits_.granule_bytes % granularity, std::size_t{0});
  traits_.capacity_bytes = api_.memory(device).total_bytes;  // makes the device's context, too
  // Longer ranges place no better, and the allocator's address table grows with them.
  traits_.range_step_bytes = round_up(std::min(traits_.capacity_bytes, 4 * kGiB), traits_.granule_bytes);
}

VmmSource::~VmmSource() {
  const RelaxedCapture relaxed(functions_);
  for (auto& [id, range] : ranges_) give_back(range);
}

std::optional<SourceRange> VmmSource::reserve(std::size_t bytes) {
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % traits_.granule_bytes, std::size_t{0});
  const std::scoped_lock lock(mutex_);
  const RelaxedCapture relaxed(functions_);
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    range = range->second.unwanted && give_back(range->second) ? ranges_.erase(range) : std::next(range);
  }
  auto space = reserve_addresses(functions_, bytes, traits_.granule_bytes);
  if (!space) return std::nullopt;
  Range range;
  range.space = std::move(*space);
  range.granules.resize(bytes / traits_.granule_bytes);
  const SourceRange reserved{RangeId{next_id_++}, range.space.get().address, bytes};
  ranges_.emplace(reserved.id.value, std::move(range));
  return reserved;
}

std::size_t VmmSource::commit(RangeId id, std::size_t offset, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Granules span = find(id, offset, bytes);
  for (std::size_t i = span.first; i < span.end; ++i) CISTERN_CHECK_EQ(span.range.granules[i].committed, false);
  const RelaxedCapture relaxed(functions_);
  const auto roll_back = [&] {
    for (std::size_t i = span.first; i < span.end; ++i) empty(span.range.granules[i]);
  };
  try {
    bool granted = true;
    for (std::size_t i = span.first; i < span.end && granted; ++i) granted = fill(span.range, i);
    if (!granted || !set_access(Span{address_of(span.range, span.first), bytes}, devices_, Access::kReadWrite)) {
      roll_back();
      return 0;
    }
  } catch (...) {
    roll_back();
    throw;
  }
  for (std::size_t i = span.first; i < span.end; ++i) span.range.granules[i].committed = true;
  return bytes;
}

void VmmSource::decommit(RangeId id, std::size_t offset, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Granules span = find(id, offset, bytes);
  const RelaxedCapture relaxed(functions_);
  for (std::size_t i = span.first; i < span.end; ++i) {
    Granule& granule = span.range.granules[i];
    CISTERN_CHECK_EQ(granule.committed, true);
    CISTERN_CHECK_EQ(granule.pins, 0u);
    granule.committed = false;
    empty(granule);
  }
}

void VmmSource::unreserve(RangeId id) {
  const std::scoped_lock lock(mutex_);
  const auto found = ranges_.find(id.value);
  const bool range_is_reserved = found != ranges_.end() && !found->second.unwanted;
  CISTERN_CHECK_EQ(range_is_reserved, true);
  for (const Granule& granule : found->second.granules) CISTERN_CHECK_EQ(granule.committed, false);
  const RelaxedCapture relaxed(functions_);
  found->second.unwanted = true;
  if (give_back(found->second)) ranges_.erase(found);
}

void VmmSource::add_peer(int device) {
  const std::scoped_lock lock(mutex_);
  if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) return;
  const RelaxedCapture relaxed(functions_);
  const std::vector<Span> spans = committed_spans();
  std::size_t done = 0;
  try {
    devices_.reserve(devices_.size() + 1);
    for (; done < spans.size(); ++done) {
      if (!set_access(spans[done], {device}, Access::kReadWrite)) {
        throw functions_.error("cuMemSetAccess", CUDA_ERROR_OUT_OF_MEMORY);
      }
    }
  } catch (...) {
    // Rights that cannot be taken back do no harm.
    while (done-- > 0) {
      try {
        set_access(spans[done], {device}, Access::kNone);
      } catch (const DriverError& error) {
        faults_.keep(error);
      }
    }
    throw;
  }
  devices_.push_back(device);
}

ExportedGranules VmmSource::export_granules(Address address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Granules span = find(address, bytes);
  if (!exportable_) {
    throw DriverError("cuMemExportToShareableHandle", CUDA_ERROR_NOT_SUPPORTED,
                      "device " + std::to_string(device_) + " cannot export memory as file descriptors");
  }
  ExportedGranules exported;
  exported.base = address_of(span.range, span.first);
  exported.granule_bytes = traits_.granule_bytes;
  exported.descriptors.reserve(span.end - span.first);
  for (std::size_t i = span.first; i < span.end; ++i) {
    CISTERN_CHECK_EQ(span.range.granules[i].committed, true);
    int descriptor = -1;
    functions_.check("cuMemExportToShareableHandle",
                     functions_.cuMemExportToShareableHandle(&descriptor, span.range.granules[i].memory.get(),
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    exported.descriptors.emplace_back(functions_, descriptor);
  }
  for (std::size_t i = span.first; i < span.end; ++i) ++span.range.granules[i].pins;
  return exported;
}

void VmmSource::unpin(Address address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Granules span = find(address, bytes);
  for (std::size_t i = span.first; i < span.end; ++i) {
    CISTERN_CHECK_NE(span.range.granules[i].pins, 0u);
    --span.range.granules[i].pins;
  }
}

bool VmmSource::is_pinned(Address address, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Granules span = find(address, bytes);
  for (std::size_t i = span.first; i < span.end; ++i) {
    if (span.range.granules[i].pins > 0) return true;
  }
  return false;
}

VmmSource::Granules VmmSource::find(RangeId id, std::size_t offset, std::size_t bytes) {
  const auto found = ranges_.find(id.value);
  const bool range_is_reserved = found != ranges_.end() && !found->second.unwanted;
  CISTERN_CHECK_EQ(range_is_reserved, true);
  Range& range = found->second;
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(offset % traits_.granule_bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % traits_.granule_bytes, std::size_t{0});
  CISTERN_CHECK_LE(offset, range.space.get().bytes);
  CISTERN_CHECK_LE(bytes, range.space.get().bytes - offset);
  return {range, offset / traits_.granule_bytes, (offset + bytes) / traits_.granule_bytes};
}

VmmSource::Granules VmmSource::find(Address address, std::size_t bytes) {
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [address](const auto& entry) {
    const Span space = entry.second.space.get();
    return !entry.second.unwanted && address >= space.address && address - space.address < space.bytes;
  });
  const bool address_is_in_a_range = found != ranges_.end();
  CISTERN_CHECK_EQ(address_is_in_a_range, true);
  Range& range = found->second;
  const std::size_t offset = address - range.space.get().address;
  CISTERN_CHECK_LE(bytes, range.space.get().bytes - offset);
  return {range, offset / traits_.granule_bytes, (offset + bytes - 1) / traits_.granule_bytes + 1};
}

Span VmmSource::base_allocation(Address address, std::size_t bytes) const noexcept {
  const Address base = round_down(address, traits_.granule_bytes);
  return {base, round_up(address + bytes - base, traits_.granule_bytes)};
}

Address VmmSource::address_of(const Range& range, std::size_t index) const {
  return range.space.get().address + index * traits_.granule_bytes;
}

std::optional<PhysicalGranule> VmmSource::create_granule() const {
  const CUmemAllocationProp wanted = properties(device_, exportable_, remote_access_);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult code = functions_.cuMemCreate(&handle, traits_.granule_bytes, &wanted, 0);
  if (!functions_.granted("cuMemCreate", code)) return std::nullopt;
  return PhysicalGranule(functions_, handle);
}

// A granule that a failed decommit left behind still has its memory, and perhaps its mapping.
bool VmmSource::fill(Range& range, std::size_t index) {
  Granule& granule = range.granules[index];
  if (!granule.memory) {
    auto memory = create_granule();
    if (!memory) return false;
    granule.memory = std::move(*memory);
  }
  if (!granule.mapping) {
    auto mapping = map(functions_, Span{address_of(range, index), traits_.granule_bytes}, granule.memory);
    if (!mapping) return false;
    granule.mapping = std::move(*mapping);
  }
  return true;
}

void VmmSource::empty(Granule& granule) noexcept {
  auto error = granule.mapping.release();
  if (!error) error = granule.memory.release();
  if (error) faults_.keep(*error);
}

bool VmmSource::set_access(Span span, const std::vector<int>& devices, Access access) {
  std::vector<CUmemAccessDesc> rights(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    rights[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    rights[i].location.id = devices[i];
    rights[i].flags =
        access == Access::kReadWrite ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return functions_.granted("cuMemSetAccess",
                            functions_.cuMemSetAccess(span.address, span.bytes, rights.data(), rights.size()));
}

bool VmmSource::give_back(Range& range) noexcept {
  bool all = true;
  for (Granule& granule : range.granules) {
    if (granule.mapping || granule.memory) empty(granule);
    all = all && !granule.mapping && !granule.memory;
  }
  if (!all) return false;
  const auto error = range.space.release();
  if (error) faults_.keep(*error);
  return !error;
}

std::vector<Span> VmmSource::committed_spans() const {
  std::vector<Span> spans;
  for (const auto& [id, range] : ranges_) {
    for (std::size_t i = 0; i < range.granules.size(); ++i) {
      if (!range.granules[i].committed) continue;
      if (i > 0 && range.granules[i - 1].committed) spans.back().bytes += traits_.granule_bytes;
      else spans.push_back(Span{address_of(range, i), traits_.granule_bytes});
    }
  }
  return spans;
}

}  // namespace cistern
