// Tenants: parts of one process that share a device, each within a limit of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string_view>

#include "cistern/base/ids.hpp"
#include "cistern/base/units.hpp"

namespace cistern {

class CachingAllocator;

/// A pool on one device, with a limit below the device's. Its memory serves nobody else; idle memory of it goes back by
/// trim(), or when the device or the pool lacks some. What is allocated from it may outlive it.
/// Threads: any.
class MemoryPool {
 public:
  /// Uses the device, if nobody did before. Fails as memory_info, with MemoryError::kAboveCapacity, and with
  /// std::length_error when the device has 255 pools.
  MemoryPool(std::string_view device, std::optional<Amount> limit);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Info {
    std::size_t current_bytes = 0;   ///< Granted now.
    std::size_t reserved_bytes = 0;
    std::optional<std::size_t> limit_bytes{};
  };
  /// Cost: O(blocks of the device).
  Info info() const;
  /// Fails as set_memory_limit.
  void set_limit(Amount limit);
  std::size_t trim(std::size_t keep_bytes = 0);

  CachingAllocator& allocator() const noexcept { return allocator_; }
  PoolId id() const noexcept { return id_; }

 private:
  CachingAllocator& allocator_;
  const PoolId id_;
};

/// Between construction and destruction what this thread allocates on the device comes from the pool; other threads are
/// not affected, those of torch's backward pass and of its CPU kernels included. Scopes nest: on each device the innermost
/// counts. CUDA graphs and torch's own pools go before it.
/// Threads: destroyed by the thread that made it, innermost first.
class ScopedPool {
 public:
  explicit ScopedPool(MemoryPool& pool);
  /// With a pool of its own, which ends with the scope.
  ScopedPool(std::string_view device, std::optional<Amount> limit);
  ~ScopedPool();
  ScopedPool(const ScopedPool&) = delete;
  ScopedPool& operator=(const ScopedPool&) = delete;

  MemoryPool& pool() const noexcept { return pool_; }

 private:
  friend PoolId innermost_pool(const CachingAllocator& allocator) noexcept;
  void enter() noexcept;

  std::optional<MemoryPool> own_;
  MemoryPool& pool_;
  const ScopedPool* outer_ = nullptr;
};

/// For plugs: scopes there are now, of all threads.
extern std::atomic<std::size_t> scoped_pool_count;
PoolId innermost_pool(const CachingAllocator& allocator) noexcept;

/// For plugs: the pool that this thread's requests of that allocator go to. Cost: one load while there is no scope.
inline PoolId scoped_pool(const CachingAllocator& allocator) noexcept {
  if (scoped_pool_count.load(std::memory_order_relaxed) == 0) [[likely]] return PoolId{};
  return innermost_pool(allocator);
}

}  // namespace cistern
