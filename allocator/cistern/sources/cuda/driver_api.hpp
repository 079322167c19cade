// The CUDA runtime and driver as a table of functions, filled at run time: nothing of CUDA is linked, no driver is an
// error with a name, and a test puts its own functions there.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "cistern/base/result.hpp"
#include "cistern/sources/cuda/driver_error.hpp"

namespace cistern {

struct DriverFunctions;  // driver_functions.hpp, which needs CUDA's headers

/// A value: copies share one table.
/// Threads: const members from any thread at once.
class DriverApi {
 public:
  /// The address of a runtime function by its name, or nullptr.
  using Lookup = std::function<void*(const char* name)>;

  /// The runtime this process has already (whoever brought it), else the one the loader finds.
  /// Fails with what is missing: the library, or a function in it. A missing driver shows at device_count().
  static Result<DriverApi, DriverError> from_process();
  static Result<DriverApi, DriverError> from_lookup(const Lookup& lookup);

  /// Fails with DriverError; without a driver that says so.
  int device_count() const;

  struct Memory {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
  };
  /// What the driver says of the device now, other processes included. Fails with DriverError.
  Memory memory(int device) const;

  /// What keeps the device from mapping memory by granules: a missing function or attribute. Nothing: it can.
  /// Fails with DriverError.
  std::optional<DriverError> why_no_vmm(int device) const;

  const DriverFunctions& functions() const noexcept { return *functions_; }

 private:
  explicit DriverApi(std::shared_ptr<const DriverFunctions> functions) : functions_(std::move(functions)) {}

  std::shared_ptr<const DriverFunctions> functions_;
};

}  // namespace cistern
