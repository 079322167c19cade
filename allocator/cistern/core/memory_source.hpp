// The seam to memory: everything cistern asks of a device, in four verbs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cistern/base/ids.hpp"

namespace cistern {

struct SourceTraits {
  std::string name;                  ///< For reports: "host", "simulated", "vmm", "malloc".
  std::size_t granule_bytes = 0;     ///< Least unit of commit; a power of two. Ranges are aligned to it.
  std::size_t capacity_bytes = 0;    ///< What the device has in all; shares of a limit refer to it.
  std::size_t range_step_bytes = 0;  ///< Address space worth reserving at once; at least one granule.
  bool whole_only = false;           ///< A range commits and decommits whole, as malloc does.
  bool shared_segments = false;      ///< whole_only, and scarce: large blocks share ranges, a miss gives idle ones back.
};

struct SourceRange {
  RangeId id;
  Address address = 0;
  std::size_t bytes = 0;
};

/// Growing is commit at the end, trim is decommit, remap is decommit here and commit there.
/// Threads: one allocator calls its source under its growth mutex only, so calls never overlap.
class MemorySource {
 public:
  MemorySource() = default;
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;
  virtual ~MemorySource() = default;

  virtual const SourceTraits& traits() const noexcept = 0;

  /// Free bytes of the device right now, where the source can tell; its capacity otherwise.
  virtual std::size_t available_bytes() const = 0;

  /// Contiguous address space of exactly `bytes`, aligned to the granule, without memory behind it.
  /// A whole_only source may already take the memory here, so callers claim their budget first.
  /// Requires a multiple of the granule. Fails with nothing when the address space (or memory) is refused.
  virtual std::optional<SourceRange> reserve(std::size_t bytes) = 0;

  /// Puts memory behind [offset, offset + bytes) of the range. All or nothing.
  /// Requires granule multiples, inside the range, nothing of it committed; the whole range when whole_only.
  /// Ensures the memory is usable by every stream and peer on return. Returns bytes, or 0 when refused.
  virtual std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) = 0;

  /// Takes the memory away again. Requires that all of it is committed and that nobody uses it (promise I13).
  virtual void decommit(RangeId range, std::size_t offset, std::size_t bytes) = 0;

  /// Gives the address space back. Requires that nothing of it is committed.
  virtual void unreserve(RangeId range) = 0;
};

}  // namespace cistern
