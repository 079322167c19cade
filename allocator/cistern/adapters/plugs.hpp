// The plugs that a program may be given without its help: what brings them in, and where they begin. One line a plug.
#pragma once

#include <cstddef>
#include <cstring>

#define CISTERN_PLUG_FILE(name) "libcistern_" name ".so." CISTERN_SOVERSION

namespace cistern {

struct Plug {
  const char* device;   ///< As --devices and cistern_install say it.
  const char* caller;   ///< A library of torch, whose first call of an interposed function brings the plug in.
  const char* library;  ///< Of torch: the plug belongs into processes that have it.
  const char* file;     ///< Of the plug; lies beside the library that loads it.
  const char* entry;    ///< A PlugEntry in that file.
};

inline constexpr Plug kCpuPlug{"cpu", "libc10.so", "libc10.so", CISTERN_PLUG_FILE("c10_cpu"),
                               "cistern_install_c10_cpu"};
inline constexpr Plug kCudaPlug{"cuda", "libc10_cuda.so", "libc10_cuda.so", CISTERN_PLUG_FILE("c10_cuda"),
                                "cistern_install_c10_cuda"};
inline constexpr Plug kPinnedPlug{"pinned", "libc10_cuda.so", "libtorch_cuda.so", CISTERN_PLUG_FILE("c10_host"),
                                  "cistern_install_c10_host"};
inline constexpr Plug kPlugs[] = {kCpuPlug, kCudaPlug, kPinnedPlug};
inline constexpr const char* kPlugDevices = "cpu, cuda or pinned";

/// Nothing if no plug serves that kind of device.
inline const Plug* find_plug(const char* device) noexcept {
  for (const Plug& plug : kPlugs) {
    if (std::strcmp(plug.device, device) == 0) return &plug;
  }
  return nullptr;
}

enum PlugOutcome : int {
  kPlugInstalled = 0,
  kPlugFailed = 1,   ///< The text says why.
  kPlugPresent = 2,  ///< The device is served already; nothing changed.
};

/// Installs the plug with `configuration`, a text as in CISTERN_CONF, and what CISTERN_CONF says on top. Writes one
/// line without its end into `error`, cut at `error_bytes`, unless it returns kPlugInstalled.
using PlugEntry = int (*)(const char* configuration, char* error, std::size_t error_bytes);

}  // namespace cistern
