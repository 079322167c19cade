// Growth, limits and figures of each device, as TensorFlow's users know them, and changeable while the program runs.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cistern/base/units.hpp"
#include "cistern/core/config.hpp"

namespace cistern {

class CachingAllocator;

// A device is named "cpu", "cuda:0", "cuda:1", ..., or "pinned" (host memory that devices reach).
//
// What is set before a plug is installed, or before somebody uses the device, is kept, and is in force from the device's
// first allocation. It is said by the program about that device, and so goes before the options of install_cpu and
// install_cuda, and before CISTERN_CONF.
// Threads: all of this file may be called from any thread at once.

/// Why a call was refused; nothing changed then.
class MemoryError : public std::runtime_error {
 public:
  enum class Reason {
    kUnknownDevice,  ///< No device has that name.
    kNotServed,      ///< The device exists, perhaps, but no plug of cistern is installed for it.
    kInUse,          ///< The limit is below what is in use.
    kAboveCapacity,  ///< The limit is more than the device has.
    kNoAmount,       ///< Host memory is preallocated only up to a limit, and there is none.
  };
  MemoryError(Reason reason, const std::string& text) : std::runtime_error(text), reason_(reason) {}
  Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

/// The devices that cistern serves or will serve once they are used, those of one kind ("cuda") if it is given. Uses none.
std::vector<std::string> list_devices(std::string_view kind = {});

/// True: memory is taken as it is needed. False: all that the limit allows, or the device has less the headroom, at once.
/// When the device is in use already, further growth is what changes: after true a trim may give a preallocation back,
/// after false the next miss of a large block takes the rest. Devices may differ.
/// Fails with kUnknownDevice, and with kNoAmount for false on "cpu" and "pinned" without a limit.
void set_memory_growth(std::string_view device, bool growth);

/// The most that may be reserved, in bytes or as a share of the device ("8GiB", "80%"); with growth or without. Idle
/// memory above the new limit goes back first.
/// Fails with kInUse, saying what is the least possible now and who holds it; with kAboveCapacity; with kUnknownDevice;
/// and with std::invalid_argument for a text that is no amount.
void set_memory_limit(std::string_view device, Amount limit);
void set_memory_limit(std::string_view device, std::string_view limit);
void clear_memory_limit(std::string_view device);

/// What a preallocation leaves free on the device.
void set_headroom(std::string_view device, std::size_t headroom_bytes);

struct MemoryInfo {
  std::size_t current_bytes = 0;        ///< Granted to tensors now.
  std::size_t peak_bytes = 0;           ///< The most ever granted at once, since reset_peak.
  std::size_t reserved_bytes = 0;       ///< Taken from the device, in use or kept for later.
  std::size_t peak_reserved_bytes = 0;
  std::size_t largest_free_bytes = 0;   ///< The largest piece among what is kept for later.
  std::size_t capacity_bytes = 0;       ///< What the device has in all.
  std::optional<std::size_t> limit_bytes{};    ///< None: the device is the limit.
  std::optional<std::size_t> outside_bytes{};  ///< Taken of the device beyond `reserved`: contexts, libraries, kernels,
                                               ///< other processes. None for host memory.
  Strategy strategy = Strategy::kGrowth;
};

// These use the device, if nobody did before. They fail with kUnknownDevice and kNotServed.
MemoryInfo memory_info(std::string_view device);
/// The peaks are what is in use now, from here on.
void reset_peak(std::string_view device);
/// Gives idle memory back to the driver or the system until at most `keep_bytes` are reserved. Waits for streams.
/// Returns the bytes given back.
std::size_t trim(std::string_view device, std::size_t keep_bytes = 0);

/// The allocator behind a name, for whatever else it can do.
CachingAllocator& device_allocator(std::string_view device);

}  // namespace cistern
