// Memory that comes and goes whole, as from malloc, through two functions: segments.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "cistern/core/memory_source.hpp"
#include "cistern/sources/cuda/driver_error.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {

/// Where segments come from. What the functions capture lives as long as the source.
struct WholeMemory {
  SourceTraits traits;                                ///< whole_only is understood.
  std::function<Address(std::size_t bytes)> take;     ///< 0: refused, memory ran out. May throw anything else.
  std::function<void(Address address)> give;          ///< What take returned. May throw; is then tried again later.
  std::function<std::size_t()> available_bytes;       ///< Free bytes of the device; empty: what is left of
                                                      ///< the capacity.
};

/// A segment takes its memory in reserve and gives it back in unreserve; commit and decommit only check.
/// Errors: reserve throws what take throws. unreserve never throws: a segment that could not be given back is kept,
/// tried again at the next reserve and at the end, and its error waits in faults().
class WholeSource final : public MemorySource {
 public:
  explicit WholeSource(WholeMemory memory);
  /// Gives back whatever is left.
  ~WholeSource() override;

  const SourceTraits& traits() const noexcept override { return memory_.traits; }
  std::size_t available_bytes() const override;
  std::optional<SourceRange> reserve(std::size_t bytes) override;
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void unreserve(RangeId range) override;

  /// The segment that holds the address. Threads: under the allocator's growth mutex, or with no other thread.
  std::optional<Span> base_allocation(Address address) const;

  KeptFaults& faults() noexcept { return faults_; }

 private:
  struct Segment {
    SourceRange range;
    Address taken = 0;  ///< What take returned: before the range where that was not aligned.
    bool committed = false;
  };

  Segment& segment_of(RangeId range, std::size_t offset, std::size_t bytes, bool committed);
  void give_back(Address taken) noexcept;
  void retry_leftovers() noexcept;

  WholeMemory memory_;
  std::map<std::uint32_t, Segment> segments_;
  std::vector<Address> leftovers_;  ///< Its capacity is never less than the segments plus its size.
  std::uint32_t next_id_ = 0;
  KeptFaults faults_;
};

}  // namespace cistern
