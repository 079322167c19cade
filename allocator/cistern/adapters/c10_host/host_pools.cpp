#include "cistern/adapters/c10_host/host_pools.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace cistern {

void HostPools::begin(c10::MempoolId_t id, Filter filter) {
  const std::scoped_lock changes(changes_mutex_);
  std::unique_lock lock(mutex_);
  const auto begun = [&](const Begun& one) { return one.id == id; };
  TORCH_CHECK(std::none_of(begun_.begin(), begun_.end(), begun), "cistern: begin_allocate_to_pool for pool (", id.first,
              ", ", id.second, "), which has begun already");
  auto found = entries_.find(id);
  if (found == entries_.end()) {
    lock.unlock();
    const PoolId pool = core_.create_pool();
    core_.hold_pool(pool);
    lock.lock();
    found = entries_.emplace(id, Entry{pool}).first;
    any_.store(true, std::memory_order_release);
  }
  ++found->second.uses;
  begun_.push_back({id, found->second.pool, std::move(filter)});
  routing_.store(true, std::memory_order_release);
}

void HostPools::end(c10::MempoolId_t id) {
  Begun ended;  // its filter may be anybody's code: destroyed under no lock
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(begun_.begin(), begun_.end(), [&](const Begun& one) { return one.id == id; });
  TORCH_CHECK(found != begun_.end(), "cistern: end_allocate_to_pool for pool (", id.first, ", ", id.second,
              "), which has no begin_allocate_to_pool to end");
  ended = std::move(*found);
  begun_.erase(found);
  routing_.store(!begun_.empty(), std::memory_order_release);
}

void HostPools::release(c10::MempoolId_t id) {
  const std::scoped_lock changes(changes_mutex_);
  Entry last;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(id);
    TORCH_CHECK(found != entries_.end(), "cistern: release_pool for pool (", id.first, ", ", id.second,
                "), which nobody uses");
    if (--found->second.uses > 0) return;
    last = std::move(found->second);
    entries_.erase(found);
    any_.store(!entries_.empty(), std::memory_order_release);
  }
  for (const Address address : last.kept) core_.free(address);
  core_.release_pool(last.pool);
  core_.trim_pool(last.pool);
  core_.retire_pool(last.pool);
}

std::optional<PoolId> HostPools::route(c10::Stream stream) const {
  std::vector<Begun> begun;
  {
    const std::scoped_lock lock(mutex_);
    begun = begun_;
  }
  for (const Begun& one : begun) {
    if (one.filter(stream)) return one.pool;
  }
  return std::nullopt;
}

FreeOutcome HostPools::free(Address address) {
  if (any_.load(std::memory_order_acquire)) [[unlikely]] {
    const auto block = core_.find(address);
    if (block && block->used_elsewhere) {
      const std::scoped_lock lock(mutex_);
      if (Entry* entry = entry_of(block->pool)) {
        return entry->kept.insert(address).second ? FreeOutcome::kPending : FreeOutcome::kNotLive;
      }
    }
  }
  return core_.free(address);
}

HostPools::Entry* HostPools::entry_of(PoolId pool) {
  for (auto& [id, entry] : entries_) {
    if (entry.pool == pool) return &entry;
  }
  return nullptr;
}

}  // namespace cistern
