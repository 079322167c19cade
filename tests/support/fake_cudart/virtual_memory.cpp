// The driver's virtual memory management: ranges, physical memory mapped into them, access rights.
#include <sys/mman.h>

#include <vector>

#include "memory.hpp"
#include "physical_memory.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

bool is_granular(std::size_t bytes) {
  return bytes != 0 && bytes % kGranuleBytes == 0;
}

Physical* find_handle(Runtime& state, CUmemGenericAllocationHandle handle) {
  const auto found = state.physicals.find(handle);
  return found == state.physicals.end() || found->second.handle_count == 0 ? nullptr : &found->second;
}

// Address space without memory: touching it ends the process, as it would a kernel.
bool cover_with_nothing(const Span& span) {
  return mmap(pointer_to(span.begin), span.bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// The mappings that tile the span exactly; none if there is a gap, or a mapping reaches over an end.
std::vector<Mapping*> mappings_tiling(Runtime& state, const Span& span) {
  std::vector<Mapping*> result;
  Address at = span.begin;
  for (auto next = state.mappings.find(at); at < span.end(); ++next) {
    if (next == state.mappings.end() || next->first != at || next->second.span.end() > span.end()) return {};
    result.push_back(&next->second);
    at = next->second.span.end();
  }
  return result;
}

bool overlaps_mapping(const Runtime& state, const Span& span) {
  const auto next = state.mappings.lower_bound(span.end());
  return next != state.mappings.begin() && std::prev(next)->second.span.overlaps(span);
}

CUresult reserve_range(Runtime& state, CUdeviceptr* out, std::size_t bytes, std::size_t alignment) {
  *out = 0;
  if (!is_granular(bytes) || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  void* pages = map_pages(bytes, std::max(alignment, kGranuleBytes), PROT_NONE);
  if (pages == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address_of(pages);
  state.ranges[*out] = {*out, bytes};
  return CUDA_SUCCESS;
}

CUresult free_range(Runtime& state, const Span& span) {
  const auto found = state.ranges.find(span.begin);
  if (found == state.ranges.end() || found->second.bytes != span.bytes) {
    state.misuse("cuMemAddressFree: " + hexadecimal(span.begin) + " + " + std::to_string(span.bytes) +
                 " is no range");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (overlaps_mapping(state, span)) {
    state.misuse("cuMemAddressFree: " + hexadecimal(span.begin) + " still has memory mapped");
    return CUDA_ERROR_INVALID_VALUE;
  }
  state.ranges.erase(found);
  unmap_pages(span);
  return CUDA_SUCCESS;
}

CUresult release_handle(Runtime& state, CUmemGenericAllocationHandle handle) {
  Physical* physical = find_handle(state, handle);
  if (physical == nullptr) {
    state.misuse("cuMemRelease: " + hexadecimal(handle) + " is no handle");
    return CUDA_ERROR_INVALID_VALUE;
  }
  --physical->handle_count;
  drop_unreferenced(state, handle);
  return CUDA_SUCCESS;
}

CUresult map(Runtime& state, const Span& span, std::size_t offset, CUmemGenericAllocationHandle handle) {
  Physical* physical = find_handle(state, handle);
  if (physical == nullptr || !is_granular(span.bytes) || span.begin % kGranuleBytes != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (offset % kGranuleBytes != 0 || offset > physical->bytes || span.bytes > physical->bytes - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Span* range = find_range(state, span.begin);
  if (range == nullptr || span.end() > range->end()) {
    state.misuse("cuMemMap: " + hexadecimal(span.begin) + " + " + std::to_string(span.bytes) +
                 " is not reserved");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (overlaps_mapping(state, span)) {
    state.misuse("cuMemMap: " + hexadecimal(span.begin) + " + " + std::to_string(span.bytes) +
                 " is mapped already");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (mmap(pointer_to(span.begin), span.bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           physical->file, static_cast<off_t>(physical->offset + offset)) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++physical->mapping_count;
  state.mappings[span.begin] = {.span = span, .physical = handle, .offset = offset};
  return CUDA_SUCCESS;
}

// The driver waits for nothing here.
CUresult unmap(Runtime& state, const Span& span) {
  const std::vector<Mapping*> mappings = mappings_tiling(state, span);
  if (mappings.empty()) {
    state.misuse("cuMemUnmap: " + hexadecimal(span.begin) + " + " + std::to_string(span.bytes) +
                 " is not mapped so");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const Stream* stream = stream_that_touches(state, span)) {
    state.misuse("cuMemUnmap: " + hexadecimal(span.begin) + " + " + std::to_string(span.bytes) +
                 " is still used by stream " + std::to_string(stream->id) + " of device " +
                 std::to_string(stream->device));
  }
  if (!cover_with_nothing(span)) return CUDA_ERROR_OPERATING_SYSTEM;
  for (const Mapping* mapping : mappings) {
    const std::uint64_t physical = mapping->physical;
    --state.physicals.at(physical).mapping_count;
    state.mappings.erase(mapping->span.begin);
    drop_unreferenced(state, physical);
  }
  return CUDA_SUCCESS;
}

CUresult set_access(Runtime& state, const Span& span, const CUmemAccessDesc* descriptions,
                    std::size_t count) {
  const std::vector<Mapping*> mappings = mappings_tiling(state, span);
  if (mappings.empty()) {
    state.misuse("cuMemSetAccess: " + hexadecimal(span.begin) + " + " + std::to_string(span.bytes) +
                 " is not mapped so");
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (descriptions[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!state.has_device(descriptions[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    for (const Mapping* mapping : mappings) {
      const bool own = state.physicals.at(mapping->physical).device == descriptions[i].location.id;
      if (!own && !state.peer_possible) return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (Mapping* mapping : mappings) {
    bool accessible = false;
    for (std::size_t i = 0; i < count; ++i) {
      mapping->access[static_cast<std::size_t>(descriptions[i].location.id)] = descriptions[i].flags;
    }
    for (const CUmemAccess_flags flags : mapping->access)
      accessible |= flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    mprotect(pointer_to(mapping->span.begin), mapping->span.bytes,
             accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  return CUDA_SUCCESS;
}

CUresult retain_handle(Runtime& state, CUmemGenericAllocationHandle* out, const void* address) {
  const Mapping* mapping = find_mapping(state, address_of(address));
  if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++state.physicals.at(mapping->physical).handle_count;
  *out = mapping->physical;
  return CUDA_SUCCESS;
}

// Of memory from cudaMalloc the allocation, of a range all of it that was reserved at once.
CUresult address_range(const Runtime& state, CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr address) {
  if (!is_on_device(state, address)) return CUDA_ERROR_NOT_FOUND;
  const Allocation* allocation = find_allocation(state, address);
  const Span span = allocation != nullptr ? allocation->span : *find_range(state, address);
  if (begin != nullptr) *begin = span.begin;
  if (bytes != nullptr) *bytes = span.bytes;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                             unsigned long long) {
  return driver_call(__func__, [=](Runtime& state) { return reserve_range(state, out, bytes, alignment); });
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return driver_call(__func__, [=](Runtime& state) { return free_range(state, {address, bytes}); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  return driver_call(__func__, [=](Runtime& state) {
    std::uint64_t id = 0;
    const CUresult result = create_physical(state, &id, bytes, *properties);
    if (result == CUDA_SUCCESS) *out = id;
    return result;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return driver_call(__func__, [=](Runtime& state) { return release_handle(state, handle); });
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  return driver_call(__func__, [=](Runtime& state) { return map(state, {address, bytes}, offset, handle); });
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return driver_call(__func__, [=](Runtime& state) { return unmap(state, {address, bytes}); });
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* descriptions,
                        std::size_t count) {
  return driver_call(__func__, [=](Runtime& state) {
    return set_access(state, {address, bytes}, descriptions, count);
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return driver_call(__func__, [=](Runtime& state) {
    const Mapping* mapping = find_mapping(state, address);
    if (mapping == nullptr || !state.has_device(location->id)) return CUDA_ERROR_INVALID_VALUE;
    *flags = mapping->access[static_cast<std::size_t>(location->id)];
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return driver_call(__func__, [=](Runtime& state) {
    if (!state.has_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    *out = kGranuleBytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  return driver_call(__func__, [=](Runtime& state) {
    const Physical* physical = find_handle(state, handle);
    if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    return export_physical(*physical, static_cast<int*>(out));
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                        CUmemAllocationHandleType type) {
  return driver_call(__func__, [=](Runtime& state) {
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    std::uint64_t id = 0;
    const CUresult result =
        import_physical(state, &id, static_cast<int>(reinterpret_cast<std::intptr_t>(handle)));
    if (result == CUDA_SUCCESS) *out = id;
    return result;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  return driver_call(__func__, [=](Runtime& state) { return retain_handle(state, out, address); });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                CUmemGenericAllocationHandle handle) {
  return driver_call(__func__, [=](Runtime& state) {
    const Physical* physical = find_handle(state, handle);
    if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = physical->properties;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr address) {
  return driver_call(__func__, [=](Runtime& state) { return address_range(state, begin, bytes, address); });
}
}
