// The file that `cistern run` puts into LD_PRELOAD. It needs neither torch nor CUDA, nor the C++ runtime. It waits for
// the first call that one of torch's libraries makes to a function interposed here, loads the plug that lies beside
// this file, and lets it install itself, before the memory of that call is of any interest:
//
//   libc10.so        calls posix_memalign  for the first CPU tensor
//
// dlopen is not interposed: the loader judges a call of it by the library that makes it.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cistern/adapters/plugs.hpp"

namespace {

using cistern::Plug;

[[noreturn]] void give_up(const char* what) {
  dprintf(STDERR_FILENO, "cistern: %s\n", what);
  _exit(2);
}

/// Opens a library that lies beside this one.
void* open_beside_us(const char* file) {
  Dl_info self;
  char path[PATH_MAX];
  if (dladdr(reinterpret_cast<const void*>(&open_beside_us), &self) == 0) give_up("cannot find its own file");
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder_length = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname + 1);
  snprintf(path, sizeof path, "%.*s%s", folder_length, self.dli_fname, file);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  return library;
}

void* symbol_of(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) give_up(dlerror());
  return symbol;
}

/// Says at the end what the memory of this process was like, once for all plugs.
void report_at_exit() {
  static std::atomic<bool> asked{false};
  if (getenv("CISTERN_REPORT") == nullptr || asked.exchange(true)) return;
  using Report = void (*)();
  atexit(reinterpret_cast<Report>(symbol_of(open_beside_us(CISTERN_PLUG_FILE("c_abi")), "cistern_report")));
}

void install(const Plug& plug) {
  const int caller_errno = errno;
  char error[1024] = "";
  const auto entry = reinterpret_cast<cistern::PlugEntry>(symbol_of(open_beside_us(plug.file), plug.entry));
  if (entry("", error, sizeof error) == cistern::kPlugFailed) give_up(error);
  report_at_exit();
  errno = caller_errno;
}

/// Whether CISTERN_DEVICES, names with commas between, has the plug's device; without it, cpu alone.
bool wanted(const Plug& plug) {
  const char* list = getenv("CISTERN_DEVICES");
  if (list == nullptr) list = "cpu";
  const std::size_t length = strlen(plug.device);
  for (const char* name = list; name != nullptr; name = strchr(name, ',')) {
    if (*name == ',') ++name;
    if (strncmp(name, plug.device, length) == 0 && (name[length] == ',' || name[length] == '\0')) return true;
  }
  return false;
}

/// Waits for one of torch's libraries to call.
/// Cost: without the library in the process, one walk over the libraries for each that was loaded, else a lock; once
/// installed, one load.
/// Threads: one of those that call at once installs, the others go on without.
class Trigger {
 public:
  explicit constexpr Trigger(const Plug& plug) : plug_(plug) {}

  void called_from(const void* return_address) {
    if (done_.load(std::memory_order_acquire)) [[likely]]
      return;
    if (!in_library(reinterpret_cast<std::uintptr_t>(return_address)) || done_.exchange(true)) return;
    if (wanted(plug_)) install(plug_);
  }

 private:
  struct Walk {
    Trigger& trigger;
    std::uint64_t libraries_loaded = 0;  ///< By this process so far.
  };

  bool in_library(std::uintptr_t address) {
    if (begin_.load(std::memory_order_acquire) == 0) {
      Walk walk{*this};
      if (dl_iterate_phdr(&look_at, &walk) == 0)
        libraries_seen_.store(walk.libraries_loaded, std::memory_order_relaxed);
    }
    const std::uintptr_t begin = begin_.load(std::memory_order_acquire);
    return begin != 0 && address >= begin && address < end_.load(std::memory_order_relaxed);
  }

  /// Ends the walk, by another answer than 0, where the library is found or nothing was loaded since the last walk.
  static int look_at(dl_phdr_info* library, std::size_t, void* data) {
    auto& walk = *static_cast<Walk*>(data);
    walk.libraries_loaded = library->dlpi_adds;
    if (walk.libraries_loaded == walk.trigger.libraries_seen_.load(std::memory_order_relaxed)) return 1;
    const char* slash = strrchr(library->dlpi_name, '/');
    if (strcmp(slash == nullptr ? library->dlpi_name : slash + 1, walk.trigger.plug_.library) != 0) return 0;
    walk.trigger.remember_span_of(*library);
    return 1;
  }

  void remember_span_of(const dl_phdr_info& library) {
    std::uintptr_t begin = UINTPTR_MAX;
    std::uintptr_t end = 0;
    for (int i = 0; i < library.dlpi_phnum; ++i) {
      const auto& part = library.dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      if (library.dlpi_addr + part.p_vaddr < begin) begin = library.dlpi_addr + part.p_vaddr;
      if (library.dlpi_addr + part.p_vaddr + part.p_memsz > end) end = library.dlpi_addr + part.p_vaddr + part.p_memsz;
    }
    end_.store(end, std::memory_order_relaxed);
    begin_.store(begin, std::memory_order_release);
  }

  const Plug& plug_;
  std::atomic<bool> done_{false};
  std::atomic<std::uint64_t> libraries_seen_{0};
  std::atomic<std::uintptr_t> begin_{0}, end_{0};
};

/// The function of that name that would have been called without this file.
template <class Function>
Function* next(std::atomic<Function*>& known, const char* name) {
  Function* function = known.load(std::memory_order_relaxed);
  if (function != nullptr) [[likely]]
    return function;
  function = reinterpret_cast<Function*>(symbol_of(RTLD_NEXT, name));
  known.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int posix_memalign(void** block, std::size_t alignment,
                                                                     std::size_t bytes) noexcept {
  static constinit Trigger cpu{cistern::kCpuPlug};
  using Function = int(void**, std::size_t, std::size_t);
  static constinit std::atomic<Function*> memalign{nullptr};
  cpu.called_from(__builtin_return_address(0));
  return next(memalign, "posix_memalign")(block, alignment, bytes);
}
