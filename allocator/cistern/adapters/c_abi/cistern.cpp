#include "cistern/adapters/c_abi/cistern.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "cistern/adapters/c_abi/cuda_memory.hpp"
#include "cistern/adapters/c_abi/memory_viz.hpp"
#include "cistern/adapters/memory.hpp"
#include "cistern/adapters/plugs.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "cistern/observe/files.hpp"

namespace {

using namespace cistern;

/// Of this thread; what is still there when it ends is nobody's.
std::string& last_error() {
  thread_local std::string text;
  return text;
}

/// Runs `work`; what it throws becomes the last error.
template <class Work>
int guarded(Work work) noexcept {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    last_error() = error.what();
  }
  return -1;
}

CachingAllocator& allocator_of(const char* device) {
  if (CachingAllocator* allocator = find_device(device)) return *allocator;
  if (find_family(kind_of(device)) != nullptr) return device_allocator(device);  // served, but not used yet
  std::string present;
  for (const auto& [name, allocator] : registered_devices()) present += (present.empty() ? "" : ", ") + name;
  throw std::runtime_error("cistern serves no device '" + std::string(device) + "'; " +
                           (present.empty() ? "nothing is installed" : "it serves " + present));
}

/// The number behind the colon of "cuda:1"; 0 without one.
int index_of(const char* device) {
  const char* colon = std::strchr(device, ':');
  return colon == nullptr ? 0 : std::atoi(colon + 1);
}

/// A plug that lies beside this library. It is never closed.
PlugEntry open_plug(const Plug& plug) {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&open_plug), &self) == 0)
    throw std::runtime_error("cannot find its own file");
  const std::string own(self.dli_fname);
  const std::string path = own.substr(0, own.rfind('/') + 1) + plug.file;
  if (access(path.c_str(), F_OK) != 0) {
    throw std::runtime_error("this build of cistern has no plug for " + std::string(plug.device) + " (" + path +
                             " does not exist)");
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = library == nullptr ? nullptr : dlsym(library, plug.entry);
  if (entry == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<PlugEntry>(entry);
}

cistern_stats to_c(const Stats& stats) {
  cistern_stats out{};
  out.requested = stats.requested.current, out.peak_requested = stats.requested.peak;
  out.allocated = stats.allocated.current, out.peak_allocated = stats.allocated.peak;
  out.active = stats.active.current, out.peak_active = stats.active.peak;
  out.reserved = stats.reserved.current, out.peak_reserved = stats.reserved.peak;
  out.limit = stats.limit_bytes;
  out.largest_free = stats.largest_free_bytes;
  out.live_count = stats.allocations.current;
  out.allocation_count = stats.allocations.allocated;
  out.failure_count = stats.served[static_cast<std::size_t>(Rung::kFail)];
  for (std::size_t rung = static_cast<std::size_t>(Rung::kGrow); rung < kRungCount; ++rung) {
    if (rung != static_cast<std::size_t>(Rung::kFail)) out.grow_count += stats.served[rung];
  }
  out.source_call_count = stats.source_calls.total();
  return out;
}

void report_device(const char* device, const Stats& stats) {
  const auto row = [](const char* name, const Stat& stat) {
    std::fprintf(stderr, "  %-14s %14s now %14s peak\n", name, format_bytes(stat.current).c_str(),
                 format_bytes(stat.peak).c_str());
  };
  std::fprintf(stderr, " %s\n", device);
  row("requested", stats.requested);
  row("allocated", stats.allocated);
  row("reserved", stats.reserved);
  std::fprintf(stderr, "  %-14s %14llu, served by", "allocations",
               static_cast<unsigned long long>(stats.allocations.allocated));
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    if (stats.served[rung] == 0) continue;
    std::fprintf(stderr, " %s %llu", rung_name(static_cast<Rung>(rung)),
                 static_cast<unsigned long long>(stats.served[rung]));
  }
  std::fprintf(stderr, "\n  %-14s %14llu\n", "source calls",
               static_cast<unsigned long long>(stats.source_calls.total()));
}

}  // namespace

extern "C" {

const char* cistern_version(void) {
  return CISTERN_VERSION;
}

const char* cistern_last_error(void) {
  return last_error().c_str();
}

int cistern_install(const char* kind, const char* configuration) {
  return guarded([&] {
    const Plug* plug = find_plug(kind);
    if (plug == nullptr) {
      throw std::runtime_error("there is no kind of device '" + std::string(kind) +
                               "' to install for; use " + kPlugDevices);
    }
    char error[1024] = "";
    if (open_plug(*plug)(configuration, error, sizeof error) != kPlugInstalled) throw std::runtime_error(error);
  });
}

void* cistern_alloc(size_t bytes, int device, void* stream) {
  void* data = nullptr;
  guarded([&] { data = allocate_cuda(bytes, device, stream); });
  return data;
}

void* cistern_alloc_or_throw(size_t bytes, int device, void* stream) {
  return allocate_cuda(bytes, device, stream);
}

void cistern_free(void* address, size_t bytes, int device, void* stream) {
  guarded([&] { free_cuda(address, bytes, device, stream); });
}

int cistern_record_stream(void* address, void* stream) {
  return guarded([&] { record_cuda_stream(address, stream); });
}

int cistern_get_stats(const char* device, struct cistern_stats* stats, size_t bytes) {
  return guarded([&] {
    const cistern_stats all = to_c(allocator_of(device).stats());
    std::memcpy(stats, &all, std::min(bytes, sizeof all));
  });
}

int cistern_reset_peak(const char* device) {
  return guarded([&] { allocator_of(device).reset_peak(); });
}

int cistern_trim(const char* device, uint64_t keep_bytes, uint64_t* returned_bytes) {
  return guarded([&] {
    uint64_t returned = 0;
    if (device != nullptr) {
      returned = allocator_of(device).trim(keep_bytes);
    } else {
      for (const auto& [name, allocator] : registered_devices()) returned += allocator->trim(keep_bytes);
    }
    if (returned_bytes != nullptr) *returned_bytes = returned;
  });
}

int cistern_set_limit(const char* device, const char* limit) {
  return guarded([&] {
    CachingAllocator& allocator = allocator_of(device);
    if (limit == nullptr) return allocator.clear_limit();
    const auto amount = parse_limit(limit);
    if (!amount) throw std::runtime_error("limit: " + amount.error());
    const auto changed = allocator.set_limit(amount->resolve(allocator.source_traits().capacity_bytes));
    if (changed) return;
    const Failure& failure = changed.error();
    throw std::runtime_error("limit not changed: " + failure.cause() + "; the least possible now is " +
                             format_bytes(failure.sufficient_limit_bytes));
  });
}

int cistern_snapshot(const char* device, const char* path) {
  return guarded([&] {
    OutputFile file(path);
    file.write(pickle_for_memory_viz(allocator_of(device).snapshot(), index_of(device)));
    file.close();
  });
}

void cistern_report(void) {
  guarded([] {
    std::fprintf(stderr, "cistern: memory of process %d (%s)\n", static_cast<int>(getpid()),
                 program_invocation_short_name);
    for (const auto& [name, allocator] : registered_devices()) report_device(name.c_str(), allocator->stats());
  });
}

}  // extern "C"
