// The one piece of process-wide state: which allocator serves which device, and what a program said of devices that are
// not there yet. It lives in a library of its own, libcistern_registry, so that every plug of a process sees the same.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cistern/adapters/device_settings.hpp"

namespace cistern {

/// Names the allocator of a device: "cpu", "cuda:0", "pinned"; applies what was said of it before. Requires that the
/// allocator lives as long as the process, that nobody allocated from it, and that the name is not taken.
/// Fails with std::bad_alloc, or as DeviceSettings::apply, and the device is then not registered.
/// Threads: may be called from any thread at once, as all of this file, but not by what this file calls.
void register_device(std::string name, CachingAllocator& allocator);

/// The allocator of that device, or nothing.
CachingAllocator* find_device(std::string_view name);

/// The allocator of that device; or nothing, and then `keep` was called to change what register_device will apply.
CachingAllocator* find_device_or(std::string_view name, const std::function<void(DeviceSettings&)>& keep);

/// All of them, in the order of registration.
std::vector<std::pair<std::string, CachingAllocator*>> registered_devices();

/// The devices of a kind, for plugs that make each one only when it is used.
struct DeviceFamily {
  std::string kind;                                             ///< What their names start with: "cuda".
  std::function<std::vector<std::string>()> names;              ///< Of all; uses none of them.
  std::function<CachingAllocator&(std::string_view name)> use;  ///< Makes and registers it, if nobody did before.
  /// Bytes of a device in use that are taken, whoever took them; nothing where the driver cannot be asked. Empty: host
  /// memory.
  std::function<std::optional<std::size_t>(std::string_view name)> used_bytes;
};

/// Requires that the kind is not taken. Fails with MemoryError::kUnknownDevice when something was said of a device of
/// that kind that is not among the names, and with what names() fails with; it is then not registered.
void register_family(DeviceFamily family);

/// The family of a kind, or nothing. It stays where it is.
const DeviceFamily* find_family(std::string_view kind);

/// All of them, in the order of registration.
std::vector<const DeviceFamily*> registered_families();

/// "cuda" for "cuda:1".
inline std::string_view kind_of(std::string_view device) { return device.substr(0, device.find(':')); }

}  // namespace cistern
