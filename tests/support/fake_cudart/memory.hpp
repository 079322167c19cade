// Where addresses lead, who may touch what lies there, and pages of the host for all kinds of memory.
#pragma once

#include "state.hpp"

namespace fake_cudart {

/// Fresh pages that read 0, at a multiple of `alignment`; null if the host has no room. `protection` as for
/// mmap.
void* map_pages(std::size_t bytes, std::size_t alignment, int protection);
void unmap_pages(const Span& span);

/// The allocation that holds the address; null if none does.
const Allocation* find_allocation(const Runtime& state, Address address);
const Mapping* find_mapping(const Runtime& state, Address address);
/// The reserved range that holds the address; null if none does.
const Span* find_range(const Runtime& state, Address address);

/// Memory on a device, as opposed to host memory and addresses that nobody gave out.
bool is_on_device(const Runtime& state, Address address);
/// The device of device memory, or -1.
int device_of(const Runtime& state, Address address);

/// Records a misuse, and fails as an illegal access does, unless work of `device` may touch all of the span.
/// Host memory is not judged.
cudaError_t check_touch(Runtime& state, const char* function, int device, const Span& span);

}  // namespace fake_cudart
