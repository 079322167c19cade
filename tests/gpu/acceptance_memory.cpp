// What the driver sees of the allocator: limits, trim, the whole device, preallocation.
#include <chrono>
#include <vector>

#include "gpu/acceptance.hpp"

namespace cistern::gpu {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;
using Blocks = std::vector<c10::DataPtr>;

/// Allocates blocks of that size until one is refused.
Blocks allocate_until_refused(std::size_t bytes) {
  Blocks blocks;
  try {
    while (true) blocks.push_back(cca::get()->allocate(bytes));
  } catch (const c10::OutOfMemoryError&) {
    return blocks;
  }
}

/// What is free once the context is made and nothing of ours is there.
std::size_t free_bytes_of_idle_device() {
  { const c10::DataPtr first = cca::get()->allocate(512); }
  device_allocator().trim();
  return free_device_bytes();
}

bool accepts_limit(std::size_t bytes) {
  return static_cast<bool>(device_allocator().set_limit(bytes));
}

void require_taken(std::size_t free_before, std::size_t least, std::size_t most, const std::string& when) {
  const std::size_t free_now = free_device_bytes();
  const std::size_t taken = free_before > free_now ? free_before - free_now : 0;
  require(taken >= least && taken <= most, when + ": the driver says that " + format_bytes(taken) +
                                               " are taken, expected " + format_bytes(least) + " to " +
                                               format_bytes(most));
}

}  // namespace

std::string limits() {
  const std::size_t limit = is_fake() ? 1 * kGiB : 8 * kGiB;
  constexpr std::size_t kBlock = 64 * kMiB;
  CachingAllocator& allocator = device_allocator();
  const std::size_t free_before = free_bytes_of_idle_device();
  require(accepts_limit(limit), "the limit was refused");
  Blocks blocks = allocate_until_refused(kBlock);
  require(blocks.size() * kBlock == limit,
          format_bytes(blocks.size() * kBlock) + " fitted into " + format_bytes(limit));
  require(allocator.stats().reserved.peak <= limit, "more was reserved than the limit");
  require_taken(free_before, limit, limit + kDriverSlack, "at the limit");
  require(cca::get()->getMemoryInfo(0).first < kBlock, "torch is told of free memory beyond the limit");

  require(!accepts_limit(limit / 2), "a limit below what is in use was accepted");
  require(allocator.limit_bytes() == limit, "a refused limit changed the limit");
  blocks.resize(blocks.size() / 2);
  require(accepts_limit(limit / 2), "a limit that what is in use allows was refused");
  require_taken(free_before, limit / 2, limit / 2 + kDriverSlack, "at half the limit");
  blocks.clear();
  allocator.clear_limit();
  allocator.audit();
  return "at " + format_bytes(limit) + " and, lowered at run time, at half of it";
}

std::string trim() {
  const std::size_t bytes = is_fake() ? 1 * kGiB : 16 * kGiB;
  CachingAllocator& allocator = device_allocator();
  const std::size_t free_before = free_bytes_of_idle_device();
  Blocks blocks;
  for (std::size_t taken = 0; taken < bytes; taken += 32 * kMiB)
    blocks.push_back(cca::get()->allocate(32 * kMiB));
  require_taken(free_before, bytes, bytes + kDriverSlack, "with all blocks live");
  for (std::size_t i = 0; i < blocks.size(); i += 2)
    blocks[i].clear();  // every second one: no segment is all free
  require_taken(free_before, bytes, bytes + kDriverSlack, "half freed, before the trim");
  const std::size_t returned = allocator.trim();
  const bool by_granules = !allocator.source_traits().whole_only;
  if (by_granules) {
    require(returned >= bytes / 2,
            "trim gave back " + format_bytes(returned) + " of " + format_bytes(bytes / 2));
    require_taken(free_before, bytes / 2, bytes / 2 + kDriverSlack, "half freed, after the trim");
  }
  blocks.clear();
  cca::emptyCache();
  require_taken(free_before, 0, kDriverSlack, "all freed, after empty_cache");
  require(allocator.stats().reserved.current == 0, "memory is left over");
  allocator.audit();
  return format_bytes(returned) + " back from between live blocks, then all";
}

std::string whole_device() {
  CachingAllocator& allocator = device_allocator();
  const std::size_t block = is_fake() ? 64 * kMiB : 1 * kGiB;
  const std::size_t free_before = free_bytes_of_idle_device();
  const auto start = std::chrono::steady_clock::now();
  Blocks blocks = allocate_until_refused(block);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::size_t held = blocks.size() * block;
  require(held + block + kGiB >= free_before,
          "only " + format_bytes(held) + " of " + format_bytes(free_before) + " could be had");
  allocator.audit();
  blocks.clear();
  allocator.trim();
  require_taken(free_before, 0, kDriverSlack, "afterwards");
  { const c10::DataPtr again = cca::get()->allocate(block); }
  return format_bytes(held) + " of " + format_bytes(free_before) + " in " + std::to_string(seconds.count()) +
         " s, and again after running out";
}

std::string preallocation() {
  CachingAllocator& allocator = device_allocator();
  const std::size_t free_before = free_device_bytes();
  const auto start = std::chrono::steady_clock::now();
  const c10::DataPtr first = cca::get()->allocate(512);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::size_t reserved = allocator.stats().reserved.current;
  require(reserved + 2 * kGiB >= free_before,
          "only " + format_bytes(reserved) + " of " + format_bytes(free_before));
  require_taken(free_before, reserved, reserved + kDriverSlack, "after the first allocation");
  const std::uint64_t calls = allocator.stats().source_calls.total();
  Blocks blocks;
  for (int i = 0; i < 1'000; ++i) blocks.push_back(cca::get()->allocate(std::size_t{512} << (i % 12)));
  blocks.clear();
  require(allocator.stats().source_calls.total() == calls, "the driver was called after the preallocation");
  allocator.audit();
  return format_bytes(reserved) + " at the first allocation, in " + std::to_string(seconds.count()) + " s";
}

}  // namespace cistern::gpu
