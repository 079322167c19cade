// The one piece of process-wide state: which allocator serves which device. It lives in a library of its own,
// libcistern_registry, so that every plug of a process sees the same.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cistern {

class CachingAllocator;

/// Names the allocator of a device: "cpu", "cuda:0", "pinned". Requires that the allocator lives as long as the process
/// and that the name is not taken. Fails with std::bad_alloc and no change.
/// Threads: may be called from any thread at once, as all of this file.
void register_device(std::string name, CachingAllocator& allocator);

/// The allocator of that device, or nothing.
CachingAllocator* find_device(std::string_view name);

/// All of them, in the order of registration.
std::vector<std::pair<std::string, CachingAllocator*>> registered_devices();

}  // namespace cistern
