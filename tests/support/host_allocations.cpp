#include "support/host_allocations.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace cistern::support {
namespace {

thread_local std::uint64_t count = 0;
thread_local std::int64_t bytes_held = 0;
thread_local std::uint64_t fails_from = 0;  // 0: never
thread_local bool failed = false;
thread_local bool paused = false;

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (!paused) ++count;
  if (!paused && fails_from != 0 && count >= fails_from) {
    failed = true;
    return nullptr;
  }
  if (bytes == 0) bytes = 1;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  bytes_held += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void release(void* memory) noexcept {
  bytes_held -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

std::uint64_t host_allocation_count() noexcept {
  return count;
}

std::int64_t host_bytes() noexcept {
  return bytes_held;
}

FailingHostAllocations::FailingHostAllocations(std::uint64_t nth) noexcept {
  failed = false;
  fails_from = count + nth;
}
FailingHostAllocations::~FailingHostAllocations() {
  fails_from = 0;
}
FailingHostAllocations::Pause::Pause() noexcept {
  paused = true;
}
FailingHostAllocations::Pause::~Pause() {
  paused = false;
}

bool FailingHostAllocations::struck() const noexcept {
  return failed;
}

}  // namespace cistern::support

using cistern::support::allocate;
using cistern::support::allocate_or_throw;
using cistern::support::release;

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
