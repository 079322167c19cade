// Why a request failed, in numbers, and the paragraph a person reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/core/stats.hpp"

namespace cistern {

enum class FailureCode : std::uint8_t {
  kLimit,          ///< committed + need exceeds a limit of the chain
  kSourceRefused,  ///< the device has no more, or refused the address space
  kTooLarge,       ///< more than the device could ever hold, or not representable
  kBookkeeping,    ///< the host has no memory for our own tables
  kInUse,          ///< a limit below what is in use
};

/// Live bytes of one size class, largest classes by bytes first.
struct Holder {
  std::size_t smallest_bytes = 0;
  std::size_t largest_bytes = 0;
  std::size_t count = 0;
  std::size_t bytes = 0;
};

struct Failure {
  FailureCode code = FailureCode::kSourceRefused;
  DeviceId device;
  std::string source;                  ///< Name of the memory source.
  std::size_t asked_bytes = 0;
  std::size_t need_bytes = 0;          ///< Least that would have to be committed for it.
  std::size_t largest_free_bytes = 0;  ///< On the stream's own heap.
  std::size_t free_bytes = 0;          ///< Reserved, not active.
  std::size_t active_bytes = 0;
  std::size_t pending_bytes = 0;
  std::size_t reserved_bytes = 0;
  std::size_t limit_bytes = 0;         ///< The largest number when there is none.
  std::size_t capacity_bytes = 0;
  std::size_t sufficient_limit_bytes = 0;  ///< A limit under which this request would have been served; 0: none.
  std::array<bool, kRungCount> tried{};
  std::vector<Holder> holders;         ///< At most five.

  /// The one-sentence cause.
  std::string cause() const;
  /// One screen: asked, largest free, reserved, limit, who holds it, what would have helped.
  std::string explain() const;
};

}  // namespace cistern
