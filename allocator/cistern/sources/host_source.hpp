// The host's memory: address space from mmap, committed and decommitted in granules, so that what is given
// back really leaves the process (its resident set falls).
#pragma once

#include <cstddef>
#include <map>

#include "cistern/base/units.hpp"
#include "cistern/core/memory_source.hpp"

namespace cistern {

struct HostOptions {
  std::size_t granule_bytes =
      2 * kMiB;  ///< A power of two, at least a page; from 2 MiB on, huge pages are asked for.
  std::size_t capacity_bytes = 0;  ///< 0: the physical memory, or the control group's limit if that is less.
};

/// Errors: no memory, address space or mappings left is a refusal; any other error of the system throws
/// std::system_error. Pages come when touched: a commit beyond what is free succeeds, as everywhere on Linux,
/// so limits belong into Options::limit.
class HostSource final : public MemorySource {
 public:
  explicit HostSource(const HostOptions& options = {});
  /// Gives back whatever is still reserved.
  ~HostSource() override;

  const SourceTraits& traits() const noexcept override { return traits_; }
  /// The system's estimate, bounded by the control group's limit and by what is left of the capacity.
  std::size_t available_bytes() const override;
  std::optional<SourceRange> reserve(std::size_t bytes) override;
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void unreserve(RangeId range) override;

  std::size_t committed_bytes() const noexcept { return committed_bytes_; }

 private:
  /// Checks that the span lies in the range, on granules. Returns its address.
  void* span(RangeId range, std::size_t offset, std::size_t bytes) const;

  SourceTraits traits_;
  std::map<std::uint32_t, SourceRange> ranges_;
  std::uint32_t next_id_ = 0;
  std::size_t committed_bytes_ = 0;
};

}  // namespace cistern
