// Pools: made, held while somebody counts on their memory, retired.
#include <stdexcept>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {

Pool& CachingAllocator::pool_of(PoolId pool) const {
  CISTERN_CHECK_NE(pool.value, 0u);
  CISTERN_CHECK_LE(pool.value, pool_count_.load());
  return *pools_[pool.value - 1u];
}

const Budget& CachingAllocator::budget_of(PoolId pool) const {
  return const_cast<CachingAllocator*>(this)->budget_of(pool);
}

Budget& CachingAllocator::budget_of(PoolId pool) { return pool.value == 0 ? budget_ : pool_of(pool).budget; }

bool CachingAllocator::held(const Heap& heap) const {
  return heap.pool.value != 0 && pools_[heap.pool.value - 1u]->holds != 0;
}

PoolId CachingAllocator::create_pool(const PoolOptions& options) {
  const std::scoped_lock growth(growth_mutex_);
  PoolId pool;
  for (std::size_t i = 0; i < pool_count_ && pool.value == 0; ++i) {
    Pool& old = *pools_[i];
    if (!old.retired || (old.budget.claimed() != 0 && !CISTERN_MUTANT(I8_retired_pool_with_blocks_reused))) continue;
    old.retired = false;
    old.own_granules = options.own_granules;
    old.budget.set_limit(options.limit_bytes);
    pool.value = static_cast<std::uint16_t>(i + 1);
  }
  if (pool.value == 0) {
    if (pool_count_ == kMaxPools) throw std::length_error("cistern: 255 pools at once are the most of a device");
    pools_[pool_count_] = std::make_unique<Pool>(options, budget_);
    pool.value = static_cast<std::uint16_t>(++pool_count_);
  }
  log_device(EventKind::kLimit, options.limit_bytes, pool);
  return pool;
}

void CachingAllocator::set_own_granules(PoolId pool, bool own) {
  const std::scoped_lock growth(growth_mutex_);
  pool_of(pool).own_granules = own;
}

void CachingAllocator::hold_pool(PoolId pool) {
  const std::scoped_lock growth(growth_mutex_);
  ++pool_of(pool).holds;
}

void CachingAllocator::release_pool(PoolId pool) {
  const std::scoped_lock growth(growth_mutex_);
  CISTERN_CHECK_NE(pool_of(pool).holds, 0u);
  --pool_of(pool).holds;
}

void CachingAllocator::retire_pool(PoolId pool) {
  const std::scoped_lock growth(growth_mutex_);
  CISTERN_CHECK_EQ(pool_of(pool).holds, 0u);
  CISTERN_CHECK_EQ(pool_of(pool).retired, false);
  pool_of(pool).retired = true;
}

}  // namespace cistern
