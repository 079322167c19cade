// The file that `cistern run` puts into LD_PRELOAD. It needs neither torch nor CUDA, nor the C++ runtime. It waits for
// the first call that one of torch's libraries makes to a function interposed here, loads the plug that lies beside
// this file, and lets it install itself. The call itself is served as ever.
//
//   libc10.so        calls posix_memalign      for the first CPU tensor
//   libc10_cuda.so   calls cudaGetDeviceCount  before anything of CUDA
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

#include "cistern/adapters/plugs.hpp"

namespace {

using cistern::Plug;

[[noreturn]] void give_up(const char* what) {
  constexpr const char* kName = "cistern: ";
  const bool named = strncmp(what, kName, strlen(kName)) == 0;
  dprintf(STDERR_FILENO, "%s%s\n", named ? "" : kName, what);
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

/// The file whose code lies there; "" for the program itself. Not by dladdr or dl_iterate_phdr: they lock, and a child
/// of fork would wait for ever for a lock that another thread of its parent held.
const char* path_of_library(void* address) {
  dl_find_object object;
  return _dl_find_object(address, &object) == 0 ? object.dlfo_link_map->l_name : "";
}

bool in_process(const char* library) { return dlopen(library, RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

/// Waits for one of torch's libraries to call, and installs the plugs that it brings in.
/// Cost: without locks; one search among the libraries of the process, and once installed, one load.
/// Threads: one of those that call at once installs, the others go on without.
class Trigger {
 public:
  explicit constexpr Trigger(const char* caller) : caller_(caller) {}

  void called_from(void* return_address) {
    if (done_.load(std::memory_order_acquire)) [[likely]] return;
    if (!in_library(return_address) || done_.exchange(true)) return;
    for (const Plug& plug : cistern::kPlugs) {
      if (strcmp(plug.caller, caller_) == 0 && wanted(plug) && in_process(plug.library)) install(plug);
    }
  }

 private:
  bool in_library(void* address) const {
    const char* path = path_of_library(address);
    const char* slash = strrchr(path, '/');
    return strcmp(slash == nullptr ? path : slash + 1, caller_) == 0;
  }

  const char* const caller_;
  std::atomic<bool> done_{false};
};

}  // namespace

#define CISTERN_INTERPOSED extern "C" __attribute__((visibility("default")))

CISTERN_INTERPOSED int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  using Function = int(void**, std::size_t, std::size_t);
  static constinit Trigger cpu{cistern::kCpuPlug.caller};
  static constinit std::atomic<Function*> known{nullptr};
  cpu.called_from(__builtin_return_address(0));
  Function* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) [[unlikely]] {
    function = reinterpret_cast<Function*>(symbol_of(RTLD_NEXT, "posix_memalign"));
    known.store(function, std::memory_order_relaxed);
  }
  return function(block, alignment, bytes);
}

/// The runtime may be out of the global scope, as Python loads it: then it is looked for where the caller would.
CISTERN_INTERPOSED int cudaGetDeviceCount(int* count) {
  using Function = int(int*);
  constexpr int kNoRuntime = 35;  // cudaErrorInsufficientDriver
  static constinit Trigger cuda{cistern::kCudaPlug.caller};
  void* const caller = __builtin_return_address(0);
  cuda.called_from(caller);
  void* function = dlsym(RTLD_NEXT, "cudaGetDeviceCount");
  if (function == nullptr) {
    void* library = dlopen(path_of_library(caller), RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) function = dlsym(library, "cudaGetDeviceCount");
  }
  if (function == nullptr || function == reinterpret_cast<void*>(&cudaGetDeviceCount)) return kNoRuntime;
  return reinterpret_cast<Function*>(function)(count);
}
