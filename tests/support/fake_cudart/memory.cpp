#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace fake_cudart {
namespace {

template <class Value>
const Value* find_holder(const std::map<Address, Value>& spans, Address address, const Span Value::*member) {
  auto next = spans.upper_bound(address);
  if (next == spans.begin()) return nullptr;
  const Value& candidate = std::prev(next)->second;
  return (candidate.*member).contains(address) ? &candidate : nullptr;
}

bool may_touch_all(const Runtime& state, int device, const Span& span) {
  for (Address at = span.begin; at < span.end();) {
    if (const Allocation* allocation = find_allocation(state, at)) {
      at = allocation->span.end();
      continue;
    }
    const Mapping* mapping = find_mapping(state, at);
    if (mapping == nullptr) return false;
    if (mapping->access[static_cast<std::size_t>(device)] != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return false;
    at = mapping->span.end();
  }
  return true;
}

}  // namespace

void* map_pages(std::size_t bytes, std::size_t alignment, int protection) {
  constexpr std::size_t kPageBytes = 4096;
  const std::size_t slack = alignment > kPageBytes ? alignment : 0;
  void* mapped = mmap(nullptr, bytes + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const Address begin = address_of(mapped);
  const Address end = begin + bytes + slack;
  const Address aligned = slack == 0 ? begin : (begin + alignment - 1) / alignment * alignment;
  const Address used_end = aligned + (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (end > used_end) munmap(pointer_to(used_end), end - used_end);
  return pointer_to(aligned);
}

void unmap_pages(const Span& span) {
  munmap(pointer_to(span.begin), span.bytes);
}

const Allocation* find_allocation(const Runtime& state, Address address) {
  return find_holder(state.allocations, address, &Allocation::span);
}

const Mapping* find_mapping(const Runtime& state, Address address) {
  return find_holder(state.mappings, address, &Mapping::span);
}

const Span* find_range(const Runtime& state, Address address) {
  auto next = state.ranges.upper_bound(address);
  if (next == state.ranges.begin()) return nullptr;
  const Span& candidate = std::prev(next)->second;
  return candidate.contains(address) ? &candidate : nullptr;
}

bool is_on_device(const Runtime& state, Address address) {
  if (const Allocation* allocation = find_allocation(state, address)) {
    return allocation->kind != MemoryKind::kHost && allocation->kind != MemoryKind::kRegistered;
  }
  return find_range(state, address) != nullptr;
}

int device_of(const Runtime& state, Address address) {
  if (!is_on_device(state, address)) return -1;
  if (const Allocation* allocation = find_allocation(state, address)) return allocation->device;
  const Mapping* mapping = find_mapping(state, address);
  return mapping == nullptr ? -1 : state.physicals.at(mapping->physical).device;
}

cudaError_t check_touch(Runtime& state, const char* function, int device, const Span& span) {
  if (!is_on_device(state, span.begin)) return cudaSuccess;
  if (const Allocation* allocation = find_allocation(state, span.begin)) {
    if (span.end() <= allocation->span.end()) return cudaSuccess;
  } else if (may_touch_all(state, device, span)) {
    return cudaSuccess;
  }
  state.misuse(std::string(function) + ": device " + std::to_string(device) + " may not touch all of " +
               hexadecimal(span.begin) + " + " + std::to_string(span.bytes));
  return cudaErrorIllegalAddress;
}

}  // namespace fake_cudart
