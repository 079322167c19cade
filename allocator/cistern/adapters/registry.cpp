#include "cistern/adapters/registry.hpp"

#include <algorithm>
#include <memory>
#include <mutex>

#include "cistern/base/check.hpp"

namespace cistern {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<std::string, CachingAllocator*>> devices;  ///< Guarded by mutex.

  CachingAllocator* find(std::string_view name) const {
    const auto found =
        std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return device.first == name; });
    return found == devices.end() ? nullptr : found->second;
  }
};

/// Never destroyed: tensors outlive main.
Registry& registry() {
  static Registry& the = *std::make_unique<Registry>().release();
  return the;
}

}  // namespace

void register_device(std::string name, CachingAllocator& allocator) {
  const std::scoped_lock lock(registry().mutex);
  CISTERN_ASSERT(registry().find(name) == nullptr);
  registry().devices.emplace_back(std::move(name), &allocator);
}

CachingAllocator* find_device(std::string_view name) {
  const std::scoped_lock lock(registry().mutex);
  return registry().find(name);
}

std::vector<std::pair<std::string, CachingAllocator*>> registered_devices() {
  const std::scoped_lock lock(registry().mutex);
  return registry().devices;
}

}  // namespace cistern
