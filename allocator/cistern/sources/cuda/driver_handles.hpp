// What the driver hands out and wants back, each owned by one value; and what must be set back after a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "cistern/base/ids.hpp"
#include "cistern/sources/cuda/driver_error.hpp"

namespace cistern {

struct DriverFunctions;

/// Owns one thing of the driver; empty after it was given back. Requires that the table outlives it.
template <class Value, std::optional<DriverError> (*Release)(const DriverFunctions&, const Value&)>
class DriverHandle {
 public:
  DriverHandle() = default;
  DriverHandle(const DriverFunctions& functions, Value value) : functions_(&functions), value_(value) {}
  DriverHandle(DriverHandle&& other) noexcept
      : functions_(std::exchange(other.functions_, nullptr)), value_(other.value_) {}
  DriverHandle& operator=(DriverHandle&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~DriverHandle() { release(); }

  explicit operator bool() const noexcept { return functions_ != nullptr; }
  const Value& get() const noexcept { return value_; }

  /// Gives it back; nothing happens if empty. When the driver declines it is still owned, and the error is returned.
  std::optional<DriverError> release() {
    if (functions_ == nullptr) return std::nullopt;
    std::optional<DriverError> error = Release(*functions_, value_);
    if (!error) functions_ = nullptr;
    return error;
  }

 private:
  const DriverFunctions* functions_ = nullptr;
  Value value_{};
};

struct Span {
  Address address = 0;
  std::size_t bytes = 0;
};

std::optional<DriverError> free_addresses(const DriverFunctions& functions, const Span& span);
std::optional<DriverError> unmap(const DriverFunctions& functions, const Span& span);
std::optional<DriverError> release_memory(const DriverFunctions& functions, const std::uint64_t& handle);
std::optional<DriverError> destroy_event(const DriverFunctions& functions, void* const& event);
std::optional<DriverError> close_descriptor(const DriverFunctions& functions, const int& descriptor);

using AddressRange = DriverHandle<Span, &free_addresses>;
using Mapping = DriverHandle<Span, &unmap>;
using PhysicalGranule = DriverHandle<std::uint64_t, &release_memory>;
using FileDescriptor = DriverHandle<int, &close_descriptor>;
using DeviceEvent = DriverHandle<void*, &destroy_event>;

// Those that take memory or address space give nothing when it ran out; all throw DriverError on any other failure.
std::optional<AddressRange> reserve_addresses(const DriverFunctions& functions, std::size_t bytes,
                                              std::size_t alignment);
std::optional<Mapping> map(const DriverFunctions& functions, Span span, const PhysicalGranule& memory);
/// On the current device; it measures no time.
DeviceEvent create_event(const DriverFunctions& functions);

/// A yes-or-no CUdevice_attribute of the device. Fails with DriverError.
bool has_attribute(const DriverFunctions& functions, int device, int attribute);

/// Makes a device current while it lives, and the former one again afterwards; no call if it was current.
class DeviceGuard {
 public:
  /// Fails with DriverError.
  DeviceGuard(const DriverFunctions& functions, int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const DriverFunctions& functions_;
  int former_ = 0;
  bool changed_ = false;
};

/// While it lives, this thread's calls are not taken for part of any capture: without it a cudaMalloc or cudaEventQuery
/// fails and spoils the capture, whichever thread it runs in.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverFunctions& functions) noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverFunctions& functions_;
  int former_ = 0;
  bool changed_ = false;
};

}  // namespace cistern
