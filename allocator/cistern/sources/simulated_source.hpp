// A device that exists only as numbers: addresses are never dereferenced, so 140 GB are simulated on a
// laptop. It checks every promise a caller makes to a MemorySource, counts what each verb cost, and fails on
// command.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "cistern/base/units.hpp"
#include "cistern/core/memory_source.hpp"

namespace cistern {

struct SimulatedOptions {
  std::string name = "simulated";
  std::size_t granule_bytes = 2 * kMiB;            ///< A power of two.
  std::size_t capacity_bytes = 140 * kGiB;         ///< What all ranges together may hold.
  std::size_t range_step_bytes = 0;                ///< 0: the capacity, up to 4 GiB.
  std::size_t address_space_bytes = 65536 * kGiB;  ///< What all ranges together may span.
  bool whole_only = false;  ///< As malloc: reserve takes the memory, commit takes all of it.
  bool shared_segments = false;  ///< As cudaMalloc, whose calls are slow.
};

enum class SourceVerb : std::uint8_t { kReserve, kCommit, kDecommit, kUnreserve };
inline constexpr std::size_t kSourceVerbCount = 4;

/// One call about to happen.
struct SourceCall {
  SourceVerb verb = SourceVerb::kReserve;
  std::uint64_t number = 0;  ///< Among the calls of that verb, from 1.
  std::size_t bytes = 0;
};

/// What one verb was asked for. Bytes of refused calls are not counted.
struct VerbCost {
  std::uint64_t calls = 0;
  std::uint64_t refused = 0;
  std::uint64_t bytes = 0;
};

/// Says whether a reserve or a commit is to be refused. Never asked about the other verbs: they cannot fail.
using Refusal = std::function<bool(const SourceCall&)>;

Refusal refuse_nth(SourceVerb verb, std::uint64_t number);
Refusal refuse_always(SourceVerb verb);

/// Every violation of MemorySource's contract by the caller ends the process with both values printed.
class SimulatedSource final : public MemorySource {
 public:
  explicit SimulatedSource(SimulatedOptions options = {});

  const SourceTraits& traits() const noexcept override { return traits_; }
  std::size_t available_bytes() const override { return traits_.capacity_bytes - held_bytes_; }
  std::optional<SourceRange> reserve(std::size_t bytes) override;
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void unreserve(RangeId range) override;

  /// Scripted failures from now on; an empty function ends them.
  void refuse_when(Refusal refusal) { refusal_ = std::move(refusal); }

  const VerbCost& cost(SourceVerb verb) const noexcept { return costs_[static_cast<std::size_t>(verb)]; }

  /// Memory taken from the device: from commit to decommit, from reserve to unreserve when whole_only.
  std::size_t held_bytes() const noexcept { return held_bytes_; }
  std::size_t peak_held_bytes() const noexcept { return peak_held_bytes_; }
  std::size_t range_count() const noexcept { return ranges_.size(); }

 private:
  struct Range {
    RangeId id;
    std::size_t bytes = 0;
    std::vector<bool> committed;  ///< By granule.
  };
  using RangesByAddress = std::map<Address, Range>;

  /// Counts the call; true if it is to be refused by script.
  bool begin_call(SourceVerb verb, std::size_t bytes);
  VerbCost& mutable_cost(SourceVerb verb) noexcept { return costs_[static_cast<std::size_t>(verb)]; }
  Address find_gap(std::size_t bytes) const;
  Range& range_of(RangeId id);
  /// Checks that the span lies in the range, on granules, and that all of it has that state.
  void check_span(const Range& range, std::size_t offset, std::size_t bytes, bool committed) const;
  void mark_span(Range& range, std::size_t offset, std::size_t bytes, bool committed);
  void hold(std::size_t bytes);
  bool has_room(std::size_t bytes) const noexcept { return bytes <= traits_.capacity_bytes - held_bytes_; }

  SourceTraits traits_;
  std::size_t address_space_bytes_;
  RangesByAddress ranges_;
  std::map<std::uint32_t, Address> address_by_id_;
  std::uint32_t next_id_ = 0;
  std::size_t spanned_bytes_ = 0;
  std::size_t held_bytes_ = 0;
  std::size_t peak_held_bytes_ = 0;
  std::array<VerbCost, kSourceVerbCount> costs_{};
  Refusal refusal_;
};

}  // namespace cistern
