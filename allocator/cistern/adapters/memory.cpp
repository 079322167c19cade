#include "cistern/adapters/memory.hpp"

#include <algorithm>
#include <functional>

#include "cistern/adapters/registry.hpp"

namespace cistern {
namespace {

using Reason = MemoryError::Reason;

std::string quoted(std::string_view device) { return "'" + std::string(device) + "'"; }

/// Whether a device may have that name on some machine.
bool could_be_a_device(std::string_view name) {
  if (name == "cpu" || name == "pinned") return true;
  constexpr std::string_view kCuda = "cuda:";
  const std::string_view number = name.substr(std::min(kCuda.size(), name.size()));
  return name.substr(0, kCuda.size()) == kCuda && !number.empty() &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Fails with kUnknownDevice if it is clear that no device has that name.
void check_name(std::string_view device) {
  const DeviceFamily* family = find_family(kind_of(device));
  if (family == nullptr) {
    if (could_be_a_device(device)) return;
    throw MemoryError(Reason::kUnknownDevice, "cistern: " + quoted(device) +
                                                  " is no name of a device; names are cpu, pinned, cuda:0, cuda:1, ...");
  }
  const std::vector<std::string> names = family->names();
  if (std::find(names.begin(), names.end(), device) != names.end()) return;
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw MemoryError(Reason::kUnknownDevice, "cistern: there is no device " + quoted(device) + "; there are " +
                                                (known.empty() ? "none of that kind" : known));
}

/// Changes the device now if it is used, or else what it will start with.
void set(std::string_view device, const std::function<void(DeviceSettings&)>& keep) {
  check_name(device);
  CachingAllocator* allocator = find_device_or(device, keep);
  if (allocator == nullptr) return;
  DeviceSettings settings;
  keep(settings);
  settings.apply(device, *allocator);
}

}  // namespace

std::vector<std::string> list_devices(std::string_view kind) {
  std::vector<std::string> names;
  for (const DeviceFamily* family : registered_families()) {
    for (std::string& name : family->names()) names.push_back(std::move(name));
  }
  for (const auto& [name, allocator] : registered_devices()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (!kind.empty()) std::erase_if(names, [&](const std::string& name) { return kind_of(name) != kind; });
  std::sort(names.begin(), names.end());
  return names;
}

void set_memory_growth(std::string_view device, bool growth) {
  set(device, [&](DeviceSettings& settings) { settings.growth = growth; });
}

void set_memory_limit(std::string_view device, Amount limit) {
  set(device, [&](DeviceSettings& settings) { settings.limit = limit; });
}

void set_memory_limit(std::string_view device, std::string_view limit) {
  const auto amount = parse_limit(limit);
  if (!amount) throw std::invalid_argument("cistern: limit: " + amount.error());
  set_memory_limit(device, *amount);
}

void clear_memory_limit(std::string_view device) { set_memory_limit(device, kUnlimited); }

void set_headroom(std::string_view device, std::size_t headroom_bytes) {
  set(device, [&](DeviceSettings& settings) { settings.headroom_bytes = headroom_bytes; });
}

CachingAllocator& device_allocator(std::string_view device) {
  if (CachingAllocator* allocator = find_device(device)) return *allocator;
  check_name(device);
  const DeviceFamily* family = find_family(kind_of(device));
  if (family != nullptr) return family->use(device);
  throw MemoryError(Reason::kNotServed, "cistern: nothing is installed for " + quoted(device) + "; call install_" +
                                            std::string(kind_of(device)) + " first");
}

MemoryInfo memory_info(std::string_view device) {
  const CachingAllocator& allocator = device_allocator(device);
  const Stats stats = allocator.stats();
  MemoryInfo info;
  info.current_bytes = stats.allocated.current;
  info.peak_bytes = stats.allocated.peak;
  info.reserved_bytes = stats.reserved.current;
  info.peak_reserved_bytes = stats.reserved.peak;
  info.largest_free_bytes = stats.largest_free_bytes;
  info.capacity_bytes = allocator.source_traits().capacity_bytes;
  if (stats.limit_bytes != kNoLimit) info.limit_bytes = stats.limit_bytes;
  info.strategy = allocator.options().strategy;
  const DeviceFamily* family = find_family(kind_of(device));
  if (family == nullptr || !family->used_bytes) return info;
  if (const auto used = family->used_bytes(device)) info.outside_bytes = *used - std::min(*used, info.reserved_bytes);
  return info;
}

void reset_peak(std::string_view device) { device_allocator(device).reset_peak(); }

std::size_t trim(std::string_view device, std::size_t keep_bytes) { return device_allocator(device).trim(keep_bytes); }

}  // namespace cistern
