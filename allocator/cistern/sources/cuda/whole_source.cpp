#include "cistern/sources/cuda/whole_source.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "cistern/base/check.hpp"
#include "cistern/base/units.hpp"

namespace cistern {

WholeSource::WholeSource(WholeMemory memory) : memory_(std::move(memory)) {
  const std::size_t granule = memory_.traits.granule_bytes;
  CISTERN_CHECK_NE(granule, std::size_t{0});
  CISTERN_CHECK_EQ(granule & (granule - 1), std::size_t{0});
  memory_.traits.whole_only = true;
}

WholeSource::~WholeSource() {
  for (const auto& [id, segment] : segments_) give_back(segment.taken);
  retry_leftovers();
}

std::size_t WholeSource::available_bytes() const {
  if (memory_.available_bytes) return memory_.available_bytes();
  std::size_t left = memory_.traits.capacity_bytes;
  for (const auto& [id, segment] : segments_) left -= std::min(left, segment.range.bytes);
  return left;
}

std::optional<SourceRange> WholeSource::reserve(std::size_t bytes) {
  const std::size_t granule = memory_.traits.granule_bytes;
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % granule, std::size_t{0});
  if (bytes > std::numeric_limits<std::size_t>::max() - granule) return std::nullopt;
  retry_leftovers();
  leftovers_.reserve(leftovers_.size() + segments_.size() + 1);
  Address taken = memory_.take(bytes);
  if (taken % granule != 0) {
    // Smaller alignment than a granule: one granule more holds an aligned segment somewhere.
    give_back(taken);
    taken = memory_.take(bytes + granule);
  }
  if (taken == 0) return std::nullopt;
  const SourceRange range{RangeId{next_id_++}, round_up(taken, granule), bytes};
  try {
    segments_.emplace(range.id.value, Segment{range, taken, false});
  } catch (...) {
    give_back(taken);
    throw;
  }
  return range;
}

std::size_t WholeSource::commit(RangeId range, std::size_t offset, std::size_t bytes) {
  segment_of(range, offset, bytes, false).committed = true;
  return bytes;
}

void WholeSource::decommit(RangeId range, std::size_t offset, std::size_t bytes) {
  segment_of(range, offset, bytes, true).committed = false;
}

void WholeSource::unreserve(RangeId range) {
  const auto found = segments_.find(range.value);
  const bool range_is_reserved = found != segments_.end();
  CISTERN_CHECK_EQ(range_is_reserved, true);
  CISTERN_CHECK_EQ(found->second.committed, false);
  const Address taken = found->second.taken;
  segments_.erase(found);
  give_back(taken);
}

std::optional<Span> WholeSource::base_allocation(Address address) const {
  for (const auto& [id, segment] : segments_) {
    const SourceRange& range = segment.range;
    if (address >= range.address && address - range.address < range.bytes) {
      return Span{range.address, range.bytes};
    }
  }
  return std::nullopt;
}

WholeSource::Segment& WholeSource::segment_of(RangeId range, std::size_t offset, std::size_t bytes, bool committed) {
  const auto found = segments_.find(range.value);
  const bool range_is_reserved = found != segments_.end();
  CISTERN_CHECK_EQ(range_is_reserved, true);
  CISTERN_CHECK_EQ(offset, std::size_t{0});
  CISTERN_CHECK_EQ(bytes, found->second.range.bytes);
  CISTERN_CHECK_EQ(found->second.committed, committed);
  return found->second;
}

void WholeSource::give_back(Address taken) noexcept {
  try {
    memory_.give(taken);
    return;
  } catch (const DriverError& error) {
    faults_.keep(error);
  } catch (const std::exception& error) {
    faults_.keep(DriverError("giving a segment back", 0, error.what()));
  }
  leftovers_.push_back(taken);
}

void WholeSource::retry_leftovers() noexcept {
  std::vector<Address> left = std::exchange(leftovers_, {});
  leftovers_.reserve(left.capacity());
  for (const Address taken : left) give_back(taken);
}

}  // namespace cistern
