// The allocator alone: a simulated device of 140 GiB, a block, and everything given back.
#include <cstdio>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"

int main() {
  cistern::SimulatedSource source;
  cistern::CachingAllocator allocator(cistern::Options{}, source);
  const auto allocation = allocator.allocate({.bytes = 3 * cistern::kMiB});
  if (!allocation || source.held_bytes() == 0) return 1;
  allocator.free(allocation.value().address);
  allocator.trim();
  std::printf("peak %zu bytes, now %zu\n", source.peak_held_bytes(), source.held_bytes());
  return source.held_bytes() == 0 ? 0 : 1;
}
