// Tenants on many threads while another changes limits and growth of their device, for ThreadSanitizer to watch.
#include "cistern/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cistern/adapters/registry.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/random.hpp"

namespace cistern {
namespace {

constexpr std::size_t kThreads = 4;
constexpr int kRounds = 200;
constexpr std::size_t kTenantBytes = 32 * kMiB;

struct Device {
  SimulatedSource source{{.granule_bytes = 2 * kMiB, .capacity_bytes = kGiB}};
  CachingAllocator allocator{Options{}, source};
};

/// Rounds of one thread, each as a tenant of its own. Returns the most that it held at once.
std::size_t work(CachingAllocator& allocator, std::uint64_t seed) {
  support::Random random(seed);
  std::size_t most = 0;
  for (int round = 0; round < kRounds; ++round) {
    const ScopedPool scope("cuda:0", Amount{kTenantBytes});
    std::vector<Address> live;
    std::size_t held = 0;
    for (int i = 0; i < 20; ++i) {
      const std::size_t bytes = 1 + random.below(4 * kMiB);
      const auto granted =
          allocator.allocate({.bytes = bytes, .alignment = 1, .stream = {}, .pool = scoped_pool(allocator)});
      if (!granted) continue;
      live.push_back(granted->address);
      most = std::max(most, held += granted->granted_bytes);
    }
    for (const Address address : live) allocator.free(address);
  }
  return most;
}

TEST(MemoryStress, TenantsKeepTheirLimitsWhileTheDeviceChanges) {
  Device& device = *std::make_unique<Device>().release();
  set_memory_limit("cuda:0", "512MiB");
  register_device("cuda:0", device.allocator);
  std::vector<std::size_t> most(kThreads);
  std::vector<std::thread> threads;
  std::atomic<std::size_t> running{kThreads};
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      most[i] = work(device.allocator, i);
      --running;
    });
  }
  while (running != 0) {
    set_memory_growth("cuda:0", running % 2 == 0);
    set_headroom("cuda:0", 64 * kMiB);
    set_memory_limit("cuda:0", "400MiB");
    EXPECT_LE(memory_info("cuda:0").reserved_bytes, 400 * kMiB);
    trim("cuda:0");
    list_devices();
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::size_t bytes : most) {
    EXPECT_GT(bytes, kTenantBytes / 2);
    EXPECT_LE(bytes, kTenantBytes);
  }
  device.allocator.audit();
  set_memory_growth("cuda:0", true);
  trim("cuda:0");
  EXPECT_EQ(memory_info("cuda:0").reserved_bytes, 0u);
}

}  // namespace
}  // namespace cistern
