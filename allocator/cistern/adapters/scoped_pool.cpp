#include "cistern/adapters/scoped_pool.hpp"

#include <exception>

#include "cistern/adapters/device_settings.hpp"
#include "cistern/adapters/memory.hpp"
#include "cistern/base/check.hpp"

namespace cistern {
namespace {

thread_local const ScopedPool* innermost = nullptr;

/// Checked before the pool is made.
PoolOptions pool_options(const CachingAllocator& allocator, const std::optional<Amount>& limit) {
  PoolOptions options;
  if (limit) options.limit_bytes = checked_limit(allocator, *limit);
  return options;
}

}  // namespace

std::atomic<std::size_t> scoped_pool_count{0};

MemoryPool::MemoryPool(std::string_view device, std::optional<Amount> limit)
    : allocator_(device_allocator(device)), id_(allocator_.create_pool(pool_options(allocator_, limit))) {}

MemoryPool::~MemoryPool() {
  try {
    allocator_.trim_pool(id_);
  } catch (const std::exception&) {  // of the driver: what is idle goes back at a later trim
  }
  allocator_.retire_pool(id_);
}

MemoryPool::Info MemoryPool::info() const {
  Info info;
  for (const RangeInfo& range : allocator_.snapshot()) {
    if (range.pool != id_) continue;
    info.reserved_bytes += range.committed_bytes;
    for (const BlockInfo& block : range.blocks) {
      if (block.state == BlockState::kActive) info.current_bytes += block.bytes;
    }
  }
  const std::size_t limit = allocator_.limit_bytes(id_);
  if (limit != kNoLimit) info.limit_bytes = limit;
  return info;
}

void MemoryPool::set_limit(Amount limit) { change_limit(allocator_, limit, id_); }

std::size_t MemoryPool::trim(std::size_t keep_bytes) { return allocator_.trim_pool(id_, keep_bytes); }

ScopedPool::ScopedPool(MemoryPool& pool) : pool_(pool) { enter(); }

ScopedPool::ScopedPool(std::string_view device, std::optional<Amount> limit)
    : own_(std::in_place, device, limit), pool_(*own_) {
  enter();
}

ScopedPool::~ScopedPool() {
  const bool destroyed_innermost_first_by_its_own_thread = innermost == this;
  CISTERN_CHECK_EQ(destroyed_innermost_first_by_its_own_thread, true);
  innermost = outer_;
  scoped_pool_count.fetch_sub(1, std::memory_order_relaxed);
}

void ScopedPool::enter() noexcept {
  outer_ = innermost;
  innermost = this;
  scoped_pool_count.fetch_add(1, std::memory_order_relaxed);
}

PoolId innermost_pool(const CachingAllocator& allocator) noexcept {
  for (const ScopedPool* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (&scope->pool_.allocator() == &allocator) return scope->pool_.id();
  }
  return PoolId{};
}

}  // namespace cistern
