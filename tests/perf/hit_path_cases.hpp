// The cases of the hit path, for the benchmark (ns) and for the instruction count (callgrind) alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/random.hpp"

namespace cistern::perf {

/// Allocate and free blocks of one size, last in, first out.
class LastInFirstOut {
 public:
  explicit LastInFirstOut(std::size_t bytes) : request_{.bytes = bytes} {
    for (int warm = 0; warm < 100; ++warm) pair();
  }
  /// One allocate and one free, with the lock and the statistics.
  void pair() { allocator_.free(allocator_.allocate(request_)->address); }

 private:
  SimulatedSource source_;
  CachingAllocator allocator_{{}, source_};
  Request request_;
};

/// A live set of fixed count; free any block of it, allocate one of another size: 512 B to 16 MiB,
/// log-uniform. Never remaps, and is warmed up until misses are rare, so that it is the hit that is timed.
class RandomChurn {
 public:
  explicit RandomChurn(std::size_t live_count) : live_(live_count) {
    support::Random random(17);
    draws_.resize(1 << 16);
    for (Draw& draw : draws_) draw = {random.below(live_count), random.log_uniform(512, 16 * kMiB)};
    for (Address& address : live_) address = allocate(random.log_uniform(512, 16 * kMiB));
    for (std::size_t warm = 0; warm < std::max<std::size_t>(30 * live_count, draws_.size()); ++warm) pair();
  }
  ~RandomChurn() {
    for (const Address address : live_) allocator_.free(address);
  }
  RandomChurn(const RandomChurn&) = delete;
  RandomChurn& operator=(const RandomChurn&) = delete;

  void pair() {
    const Draw& draw = draws_[at_++ % draws_.size()];
    allocator_.free(live_[draw.victim]);
    live_[draw.victim] = allocate(draw.bytes);
  }
  /// Requests so far that were not served by the first rung.
  std::uint64_t miss_count() const {
    return allocator_.stats().allocations.allocated -
           allocator_.stats().served[static_cast<std::size_t>(Rung::kFit)];
  }

 private:
  struct Draw {
    std::size_t victim = 0;
    std::size_t bytes = 0;
  };
  Address allocate(std::size_t bytes) { return allocator_.allocate({.bytes = bytes})->address; }

  SimulatedSource source_;
  CachingAllocator allocator_{{.remap_slack = 1.0}, source_};
  std::vector<Address> live_;
  std::vector<Draw> draws_;
  std::size_t at_ = 0;
};

}  // namespace cistern::perf
