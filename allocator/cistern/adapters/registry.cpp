#include "cistern/adapters/registry.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "cistern/adapters/memory.hpp"
#include "cistern/base/check.hpp"

namespace cistern {
namespace {

struct Registry {
  std::mutex mutex;
  // All guarded by mutex.
  std::vector<std::pair<std::string, CachingAllocator*>> devices;
  std::vector<std::unique_ptr<const DeviceFamily>> families;
  std::map<std::string, DeviceSettings, std::less<>> early_settings;  ///< Of devices that are not registered.

  CachingAllocator* find(std::string_view name) const {
    const auto found =
        std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return device.first == name; });
    return found == devices.end() ? nullptr : found->second;
  }
  const DeviceFamily* find_family(std::string_view kind) const {
    const auto found =
        std::find_if(families.begin(), families.end(), [&](const auto& family) { return family->kind == kind; });
    return found == families.end() ? nullptr : found->get();
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
  const auto early = registry().early_settings.find(name);
  if (early != registry().early_settings.end()) early->second.apply(name, allocator);
  registry().devices.emplace_back(std::move(name), &allocator);
}

CachingAllocator* find_device(std::string_view name) {
  const std::scoped_lock lock(registry().mutex);
  return registry().find(name);
}

CachingAllocator* find_device_or(std::string_view name, const std::function<void(DeviceSettings&)>& keep) {
  const std::scoped_lock lock(registry().mutex);
  CachingAllocator* allocator = registry().find(name);
  if (allocator == nullptr) keep(registry().early_settings[std::string(name)]);
  return allocator;
}

std::vector<std::pair<std::string, CachingAllocator*>> registered_devices() {
  const std::scoped_lock lock(registry().mutex);
  return registry().devices;
}

void register_family(DeviceFamily family) {
  const std::scoped_lock lock(registry().mutex);
  CISTERN_ASSERT(registry().find_family(family.kind) == nullptr);
  for (const auto& [device, settings] : registry().early_settings) {
    if (kind_of(device) != family.kind) continue;
    const std::vector<std::string> names = family.names();
    if (std::find(names.begin(), names.end(), device) != names.end()) continue;
    throw MemoryError(MemoryError::Reason::kUnknownDevice,
                      "cistern: something was set for '" + device + "', and there is no such device; devices of that kind: " +
                          std::to_string(names.size()));
  }
  registry().families.push_back(std::make_unique<const DeviceFamily>(std::move(family)));
}

const DeviceFamily* find_family(std::string_view kind) {
  const std::scoped_lock lock(registry().mutex);
  return registry().find_family(kind);
}

std::vector<const DeviceFamily*> registered_families() {
  const std::scoped_lock lock(registry().mutex);
  std::vector<const DeviceFamily*> families;
  for (const auto& family : registry().families) families.push_back(family.get());
  return families;
}

}  // namespace cistern
