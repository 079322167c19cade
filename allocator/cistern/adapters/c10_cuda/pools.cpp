#include "cistern/adapters/c10_cuda/pools.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace cistern {
namespace {

/// Segments of somebody else's allocator, which takes memory of whatever device is current.
ForeignAllocator through(const CudaPools::Foreign& foreign, int index) {
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  ForeignAllocator functions;
  functions.allocate = [foreign, device](std::size_t bytes) -> void* {
    const c10::DeviceGuard guard(device);
    try {
      return foreign->raw_alloc(bytes);
    } catch (const c10::OutOfMemoryError&) {
      return nullptr;
    }
  };
  functions.release = [foreign, device](void* address) {
    const c10::DeviceGuard guard(device);
    foreign->raw_delete(address);
  };
  return functions;
}

}  // namespace

PoolPlace CudaPools::make(CudaDevice& device, c10::MempoolId_t id, const Foreign& foreign) {
  PoolPlace place;
  place.id = id;
  if (foreign != nullptr) {
    place.foreign = device.add_foreign_pool(through(foreign, device.index()));
    place.allocator = &place.foreign->allocator;
  } else {
    place.allocator = &device.allocator();
  }
  place.pool = place.allocator->create_pool();
  place.allocator->hold_pool(place.pool);
  return place;
}

void CudaPools::create_or_use(CudaDevice& device, c10::MempoolId_t id, Foreign foreign) {
  const std::scoped_lock changes(changes_mutex_);
  const Key key{device.index(), id};
  std::optional<PoolPlace> unused;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.uses++ > 0) return;
    if (found != entries_.end()) unused = found->second.place;
  }
  if (unused) {
    unused->allocator->hold_pool(unused->pool);
    return;
  }
  PoolPlace place;
  try {
    place = make(device, id, foreign);
  } catch (const std::length_error&) {  // as many pools as there can be: do without those that nobody uses
    empty_unused_locked(device);
    place = make(device, id, foreign);
  }
  const std::scoped_lock lock(mutex_);
  entries_[key] = Entry{std::move(place), 1, false};
}

void CudaPools::release(int device, c10::MempoolId_t id) {
  const std::scoped_lock changes(changes_mutex_);
  PoolPlace place;
  {
    const std::scoped_lock lock(mutex_);
    const Key key{device, id};
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.uses == 0 || --found->second.uses > 0) return;
    place = found->second.place;
    found->second.use_on_oom = false;
    // A capture that failed may have left its begin behind.
    std::erase_if(active_, [&](const auto& active) { return active->key == key; });
    routing_.store(active_.size(), std::memory_order_release);
  }
  place.allocator->release_pool(place.pool);
}

int CudaPools::use_count(int device, c10::MempoolId_t id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find({device, id});
  return found == entries_.end() ? 0 : found->second.uses;
}

void CudaPools::set_use_on_oom(int device, c10::MempoolId_t id, bool use) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find({device, id});
  if (found != entries_.end()) found->second.use_on_oom = use;
}

void CudaPools::set_no_split(int device, c10::MempoolId_t id) {
  if (const auto place = find(device, id)) place->allocator->set_own_granules(place->pool, true);
}

void CudaPools::begin(CudaDevice& device, c10::MempoolId_t id, Filter filter) {
  create_or_use(device, id);
  const Key key{device.index(), id};
  const std::scoped_lock lock(mutex_);
  active_.push_back(std::make_shared<const Active>(Active{key, entries_.at(key).place, std::move(filter)}));
  routing_.store(active_.size(), std::memory_order_release);
}

void CudaPools::end(int device, c10::MempoolId_t id) {
  std::shared_ptr<const Active> ended;  // its filter may be anybody's code: destroyed under no lock
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(active_.rbegin(), active_.rend(),
                                  [&](const auto& active) { return active->key == Key{device, id}; });
  TORCH_CHECK(found != active_.rend(), "cistern: endAllocateToPool for pool (", id.first, ", ", id.second,
              ") of device ", device, ", which has no beginAllocateToPool to end");
  ended = *found;
  active_.erase(std::next(found).base());
  routing_.store(active_.size(), std::memory_order_release);
}

std::optional<PoolPlace> CudaPools::route(int device, cudaStream_t stream) const {
  std::vector<std::shared_ptr<const Active>> active;
  {
    const std::scoped_lock lock(mutex_);
    active = active_;
  }
  for (auto one = active.rbegin(); one != active.rend(); ++one) {
    if ((*one)->key.first == device && (*one)->filter(stream)) return (*one)->place;
  }
  return std::nullopt;
}

std::vector<PoolPlace> CudaPools::willing_on_oom(int device) const {
  std::vector<PoolPlace> places;
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    if (key.first == device && entry.use_on_oom) places.push_back(entry.place);
  }
  return places;
}

std::optional<PoolPlace> CudaPools::find(int device, c10::MempoolId_t id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find({device, id});
  if (found == entries_.end()) return std::nullopt;
  return found->second.place;
}

c10::MempoolId_t CudaPools::id_of(const CachingAllocator* allocator, PoolId pool) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    if (entry.place.allocator == allocator && entry.place.pool == pool) return key.second;
  }
  return {0, 0};
}

void CudaPools::empty(CudaDevice& device, c10::MempoolId_t id) {
  const std::scoped_lock changes(changes_mutex_);
  PoolPlace place;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find({device.index(), id});
    if (found == entries_.end() || found->second.uses > 0) return;
    place = std::move(found->second.place);
    entries_.erase(found);
  }
  forget(device, place);
}

void CudaPools::empty_unused(CudaDevice& device) {
  const std::scoped_lock changes(changes_mutex_);
  empty_unused_locked(device);
}

void CudaPools::empty_unused_locked(CudaDevice& device) {
  std::vector<PoolPlace> unused;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [&](auto& one) {
      if (one.first.first != device.index() || one.second.uses > 0) return false;
      unused.push_back(std::move(one.second.place));
      return true;
    });
  }
  for (const PoolPlace& place : unused) forget(device, place);
  for (const auto& foreign : device.foreign_pools()) {  // also those forgotten while blocks of them were live
    foreign->allocator.trim();
    if (foreign->allocator.stats().reserved.current == 0 && !is_named(*foreign)) device.remove_foreign_pool(*foreign);
  }
}

bool CudaPools::is_named(const ForeignPool& foreign) const {
  const std::scoped_lock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& one) { return one.second.place.foreign.get() == &foreign; });
}

// What is live in it goes to the core's care: freed blocks go back at later trims, and the number with the last.
void CudaPools::forget(CudaDevice& device, const PoolPlace& place) {
  place.allocator->trim_pool(place.pool);
  if (place.foreign == nullptr) return place.allocator->retire_pool(place.pool);
  if (place.allocator->stats().reserved.current == 0) device.remove_foreign_pool(*place.foreign);
}

}  // namespace cistern
