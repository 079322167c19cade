// The cases of the hit path, for the benchmarks (ns) and for the instruction count (callgrind) alike.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/random.hpp"

namespace cistern::perf {

/// Streams on which all work is done at once. With fences, each stream keeps its memory to itself.
class DoneFences final : public StreamFences {
 public:
  FenceId record(StreamId) override { return FenceId{++last_}; }
  FenceState query(FenceId) override { return FenceState::kDone; }
  void wait(FenceId) override {}
  bool order_after(StreamId, FenceId) override { return true; }
  void release(FenceId) noexcept override {}

 private:
  std::atomic<std::uint64_t> last_{0};
};

/// An allocator that never remaps, over a source that only counts.
struct CountedAllocator {
  SimulatedSource source{{.capacity_bytes = 1024 * kGiB}};
  DoneFences fences;
  CachingAllocator allocator{{.remap_slack = 1.0}, source, &fences};

  std::uint64_t source_call_count() const { return allocator.stats().source_calls.total(); }
};

/// Allocate and free blocks of one size, last in, first out.
class LastInFirstOut : public CountedAllocator {
 public:
  explicit LastInFirstOut(std::size_t bytes) : request_{.bytes = bytes} {
    for (int warm = 0; warm < 100; ++warm) pair();
  }
  /// One allocate and one free, with the lock and the statistics.
  void pair() { allocator.free(allocator.allocate(request_)->address); }

 private:
  Request request_;
};

/// A live set of fixed count; free any block of it, allocate one of another size: 512 B to 16 MiB, log-uniform. The draws
/// repeat, so after a while nothing is asked for that was not there before; that is how long it warms up.
class RandomChurn : public CountedAllocator {
 public:
  explicit RandomChurn(std::size_t live_count, std::uint64_t stream = 0) : stream_{stream}, live_(live_count) {
    support::Random random(17 + stream);
    draws_.resize(std::max<std::size_t>(1 << 16, 4 * live_count));
    for (Draw& draw : draws_) {
      draw.victim = static_cast<std::uint32_t>(random.below(live_count));
      draw.bytes = static_cast<std::uint32_t>(random.log_uniform(512, 16 * kMiB));
    }
    for (Address& address : live_) address = allocate(random.log_uniform(512, 16 * kMiB));
    for (std::uint64_t calls = 0, before = 1; calls != before;) {
      before = source_call_count();
      for (std::size_t warm = 0; warm < 8 * draws_.size(); ++warm) pair();
      calls = source_call_count();
    }
    leave_slack();
  }
  ~RandomChurn() {
    for (const Address address : live_) allocator.free(address);
  }
  RandomChurn(const RandomChurn&) = delete;
  RandomChurn& operator=(const RandomChurn&) = delete;

  void pair() {
    const Draw& draw = draws_[at_++ % draws_.size()];
    allocator.free(live_[draw.victim]);
    live_[draw.victim] = allocate(draw.bytes);
  }

 private:
  struct Draw {
    std::uint32_t victim = 0;
    std::uint32_t bytes = 0;
  };
  Address allocate(std::size_t bytes) { return allocator.allocate({.bytes = bytes, .stream = stream_})->address; }

  /// Places are not the same when draws repeat: without some free memory of either class the walk of what is in use would
  /// make a new peak now and then, however long it warmed up.
  void leave_slack() {
    std::vector<Address> slack{allocate(256 * kMiB + live_.size() * 64 * kKiB)};
    for (std::size_t i = 0; i < 128 + live_.size() / 64; ++i) slack.push_back(allocate(512 * kKiB));
    for (const Address address : slack) allocator.free(address);
  }

  StreamId stream_;
  std::vector<Address> live_;
  std::vector<Draw> draws_;
  std::size_t at_ = 0;
};

/// A pair, last in, first out, on each of many streams of one device, or of many devices, in turn. Each had a block at the
/// same time before: while a device's peak is a single block, its credit goes from stream to stream with each pair.
class RoundRobin {
 public:
  RoundRobin(std::size_t device_count, std::size_t stream_count)
      : devices_(device_count), stream_count_(stream_count) {
    for (CountedAllocator& device : devices_) {
      std::vector<Address> live;
      for (std::uint64_t stream = 0; stream < stream_count; ++stream) {
        for (int i = 0; i < 2; ++i) {
          live.push_back(device.allocator.allocate({.bytes = 512, .stream = StreamId{stream}})->address);
        }
      }
      for (const Address address : live) device.allocator.free(address);
    }
    for (std::size_t warm = 0; warm < 100 * device_count * stream_count; ++warm) pair();
  }
  void pair() {
    CachingAllocator& allocator = devices_[at_ % devices_.size()].allocator;
    allocator.free(allocator.allocate({.bytes = 512, .stream = StreamId{at_ % stream_count_}})->address);
    if (++at_ == devices_.size() * stream_count_) at_ = 0;
  }

 private:
  std::deque<CountedAllocator> devices_;
  std::size_t stream_count_;
  std::size_t at_ = 0;
};

/// Misses that get memory and trims that give it back, among `count` free blocks and a hole for each 16 of them, all too
/// small for either.
class MissesAmongFragments : public CountedAllocator {
 public:
  explicit MissesAmongFragments(std::size_t count) {
    support::Random random(17);
    std::vector<Address> fragments, granules;
    for (std::size_t i = 0; i < count; ++i) {
      fragments.push_back(allocate(random.log_uniform(kMiB, 2 * kMiB)));
      live_.push_back(allocate(kMiB));
      if (i % 16 == 0) granules.push_back(allocate(4 * kMiB));
    }
    for (const Address address : granules) allocator.free(address);
    allocator.trim();
    for (const Address address : fragments) allocator.free(address);
    kept_bytes_ = allocator.stats().reserved.current;
  }
  ~MissesAmongFragments() {
    for (const Address address : live_) allocator.free(address);
  }
  MissesAmongFragments(const MissesAmongFragments&) = delete;
  MissesAmongFragments& operator=(const MissesAmongFragments&) = delete;

  void pair() {
    allocator.free(allocate(8 * kMiB));
    allocator.trim(kept_bytes_);
  }

 private:
  Address allocate(std::size_t bytes) { return allocator.allocate({.bytes = bytes})->address; }

  std::vector<Address> live_;
  std::size_t kept_bytes_ = 0;
};

/// From nothing to `count` live blocks of mixed sizes and back, growing on the way.
inline void fill_and_empty(std::size_t count) {
  SimulatedSource source;
  CachingAllocator allocator({}, source);
  support::Random random(5);
  std::vector<Address> live;
  live.reserve(count);
  while (live.size() < count) live.push_back(allocator.allocate({.bytes = random.log_uniform(512, 4 * kMiB)})->address);
  for (const Address address : live) allocator.free(address);
}

}  // namespace cistern::perf
