// What the adapters to torch's CUDA memory share: our errors and statistics in torch's terms.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "cistern/core/stats.hpp"
#include "cistern/sources/cuda/driver_error.hpp"

namespace cistern {

/// Calls what may fail with DriverError or std::out_of_range; those become c10::Error, as torch's callers expect.
template <class Call>
auto as_torch_errors(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const DriverError& error) {
    C10_THROW_ERROR(Error, std::string("cistern: ") + error.what());
  } catch (const std::out_of_range& error) {
    C10_THROW_ERROR(Error, error.what());
  }
}

inline c10::CachingAllocator::Stat as_torch(const Stat& stat) {
  c10::CachingAllocator::Stat out;
  out.current = static_cast<std::int64_t>(stat.current);
  out.peak = static_cast<std::int64_t>(stat.peak);
  out.allocated = static_cast<std::int64_t>(stat.allocated);
  out.freed = static_cast<std::int64_t>(stat.freed);
  return out;
}

}  // namespace cistern
