#include "cistern/sources/simulated_source.hpp"

#include <algorithm>
#include <utility>

#include "cistern/base/check.hpp"

namespace cistern {
namespace {

// Low enough for any page table, high enough that a small number is never an address.
constexpr Address kFirstAddress = Address{1} << 40;

}  // namespace

Refusal refuse_nth(SourceVerb verb, std::uint64_t number) {
  return [verb, number](const SourceCall& call) { return call.verb == verb && call.number == number; };
}

Refusal refuse_always(SourceVerb verb) {
  return [verb](const SourceCall& call) { return call.verb == verb; };
}

SimulatedSource::SimulatedSource(SimulatedOptions options)
    : address_space_bytes_(options.address_space_bytes) {
  CISTERN_CHECK_NE(options.granule_bytes, std::size_t{0});
  CISTERN_CHECK_EQ(options.granule_bytes & (options.granule_bytes - 1), std::size_t{0});
  CISTERN_CHECK_EQ(options.range_step_bytes % options.granule_bytes, std::size_t{0});
  traits_.name = std::move(options.name);
  traits_.granule_bytes = options.granule_bytes;
  traits_.capacity_bytes = options.capacity_bytes;
  // Longer ranges place no better once holes are committed (measured on nine traces: the same ratios from 4
  // GiB up), and the allocator's address table grows with them.
  const std::size_t step_bytes = std::max(std::min(options.capacity_bytes, 4 * kGiB), std::size_t{1});
  traits_.range_step_bytes =
      options.range_step_bytes != 0 ? options.range_step_bytes : round_up(step_bytes, options.granule_bytes);
  traits_.whole_only = options.whole_only;
  traits_.shared_segments = options.shared_segments;
}

std::optional<SourceRange> SimulatedSource::reserve(std::size_t bytes) {
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % traits_.granule_bytes, std::size_t{0});
  const bool scripted = begin_call(SourceVerb::kReserve, bytes);
  const bool fits =
      bytes <= address_space_bytes_ - spanned_bytes_ && (!traits_.whole_only || has_room(bytes));
  if (scripted || !fits) {
    ++mutable_cost(SourceVerb::kReserve).refused;
    return std::nullopt;
  }
  const Address address = find_gap(bytes);
  const RangeId id{next_id_++};
  ranges_.emplace(address, Range{id, bytes, std::vector<bool>(bytes / traits_.granule_bytes)});
  address_by_id_.emplace(id.value, address);
  spanned_bytes_ += bytes;
  if (traits_.whole_only) hold(bytes);
  mutable_cost(SourceVerb::kReserve).bytes += bytes;
  return SourceRange{id, address, bytes};
}

std::size_t SimulatedSource::commit(RangeId id, std::size_t offset, std::size_t bytes) {
  Range& range = range_of(id);
  const bool scripted = begin_call(SourceVerb::kCommit, bytes);
  check_span(range, offset, bytes, false);
  if (scripted || (!traits_.whole_only && !has_room(bytes))) {
    ++mutable_cost(SourceVerb::kCommit).refused;
    return 0;
  }
  mark_span(range, offset, bytes, true);
  if (!traits_.whole_only) hold(bytes);
  mutable_cost(SourceVerb::kCommit).bytes += bytes;
  return bytes;
}

void SimulatedSource::decommit(RangeId id, std::size_t offset, std::size_t bytes) {
  Range& range = range_of(id);
  begin_call(SourceVerb::kDecommit, bytes);
  check_span(range, offset, bytes, true);
  mark_span(range, offset, bytes, false);
  if (!traits_.whole_only) held_bytes_ -= bytes;
  mutable_cost(SourceVerb::kDecommit).bytes += bytes;
}

void SimulatedSource::unreserve(RangeId id) {
  const Range& range = range_of(id);
  const std::size_t bytes = range.bytes;
  begin_call(SourceVerb::kUnreserve, bytes);
  const auto committed_granules = std::count(range.committed.begin(), range.committed.end(), true);
  CISTERN_CHECK_EQ(committed_granules, 0);
  spanned_bytes_ -= bytes;
  if (traits_.whole_only) held_bytes_ -= bytes;
  mutable_cost(SourceVerb::kUnreserve).bytes += bytes;
  const auto entry = address_by_id_.find(id.value);
  ranges_.erase(entry->second);
  address_by_id_.erase(entry);
}

bool SimulatedSource::begin_call(SourceVerb verb, std::size_t bytes) {
  const std::uint64_t number = ++mutable_cost(verb).calls;
  const bool may_fail = verb == SourceVerb::kReserve || verb == SourceVerb::kCommit;
  return may_fail && refusal_ && refusal_(SourceCall{verb, number, bytes});
}

// First fit, one granule apart: addresses come back after unreserve, and two ranges never touch.
Address SimulatedSource::find_gap(std::size_t bytes) const {
  Address candidate = round_up(kFirstAddress, traits_.granule_bytes);
  for (const auto& [address, range] : ranges_) {
    if (address >= candidate + bytes + traits_.granule_bytes) break;
    candidate = address + range.bytes + traits_.granule_bytes;
  }
  return candidate;
}

SimulatedSource::Range& SimulatedSource::range_of(RangeId id) {
  const auto entry = address_by_id_.find(id.value);
  const bool range_is_reserved = entry != address_by_id_.end();
  CISTERN_CHECK_EQ(range_is_reserved, true);
  return ranges_.find(entry->second)->second;
}

void SimulatedSource::check_span(const Range& range, std::size_t offset, std::size_t bytes,
                                 bool committed) const {
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(offset % traits_.granule_bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % traits_.granule_bytes, std::size_t{0});
  CISTERN_CHECK_LE(offset, range.bytes);
  CISTERN_CHECK_LE(bytes, range.bytes - offset);
  if (traits_.whole_only) CISTERN_CHECK_EQ(bytes, range.bytes);
  const std::size_t first = offset / traits_.granule_bytes;
  for (std::size_t granule = first; granule < first + bytes / traits_.granule_bytes; ++granule) {
    const bool granule_is_committed = range.committed[granule];
    CISTERN_CHECK_EQ(granule_is_committed, committed);
  }
}

void SimulatedSource::mark_span(Range& range, std::size_t offset, std::size_t bytes, bool committed) {
  const auto first = range.committed.begin() + static_cast<std::ptrdiff_t>(offset / traits_.granule_bytes);
  std::fill_n(first, bytes / traits_.granule_bytes, committed);
}

void SimulatedSource::hold(std::size_t bytes) {
  held_bytes_ += bytes;
  peak_held_bytes_ = std::max(peak_held_bytes_, held_bytes_);
}

}  // namespace cistern
