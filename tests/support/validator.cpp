#include "support/validator.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace cistern::support {
namespace {

constexpr std::uint64_t kMarkValue = kTruthMark - 1;

}  // namespace

Validator::Validator(const SourceTraits& traits, std::size_t least_block_bytes, const HandFences* truth)
    : granule_bytes_(traits.granule_bytes),
      whole_only_(traits.whole_only),
      least_block_bytes_(least_block_bytes),
      truth_(truth) {}

void Validator::consume(std::span<const Event> events) {
  for (const Event& event : events) {
    if (event.sequence != next_sequence_) {
      early_.emplace(event.sequence, event);
      continue;
    }
    ++next_sequence_;
    if (!violation_) check(event);
    for (auto next = early_.begin(); next != early_.end() && next->first == next_sequence_;
         next = early_.erase(next)) {
      ++next_sequence_;
      if (!violation_) check(next->second);
    }
  }
}

void Validator::finish() {
  if (!early_.empty()) {
    break_promise(early_.begin()->second, "events before this one were never delivered");
  }
}

void Validator::check(const Event& event) {
  switch (event.kind) {
    case EventKind::kAllocate:
      return on_allocate(event);
    case EventKind::kFree:
      return on_free(event);
    case EventKind::kRecordStream:
      return on_record_stream(event);
    case EventKind::kFenceRecorded:
      return on_fence_recorded(event);
    case EventKind::kFenceOrdered:
      return on_fence_ordered(event);
    case EventKind::kFenceDone:
      return on_fence_done(event);
    case EventKind::kBlockReady:
      return on_block_ready(event);
    case EventKind::kReserve:
      return on_reserve(event);
    case EventKind::kUnreserve:
      return on_unreserve(event);
    case EventKind::kCommit:
      return on_commit(event);
    case EventKind::kDecommit:
      return on_decommit(event);
    case EventKind::kOutOfMemory:
      ++out_of_memory_count_;
      return;
    case EventKind::kLimit:
      return on_limit(event);
    case EventKind::kMark:
      return on_mark(event);
  }
  break_promise(event, "unknown kind of event");
}

void Validator::on_allocate(const Event& event) {
  const Address begin = event.address;
  const Address end = begin + event.granted_bytes;
  if (event.bytes == 0 || event.granted_bytes < event.bytes)
    return break_promise(event, "I7: granted less than asked");
  if (begin % least_block_bytes_ != 0) return break_promise(event, "I7: address off the least block");
  if (event.granted_bytes % least_block_bytes_ != 0)
    return break_promise(event, "I7: size off the least block");
  if (grant_touching(begin, end) != live_.end()) return break_promise(event, "I7: overlaps another grant");
  if (!committed_.covers(begin, end)) return break_promise(event, "I7: granted without memory behind it");
  if (range_holding(begin, event.granted_bytes) == nullptr)
    return break_promise(event, "I7: leaves its range");

  bool safe = true;
  uses_.for_each(begin, end, [&](const Uses& uses) {
    for (const StreamPoint& use : uses) safe = safe && stream_may_touch(StreamId{event.stream}, use);
  });
  if (!safe) return break_promise(event, "I8: granted while earlier work may still touch it");

  live_.emplace(begin, Grant{event.bytes, event.granted_bytes, StreamId{event.stream}, false, {}, {}});
  stats_.granted(event.bytes, event.granted_bytes);
}

void Validator::on_free(const Event& event) {
  const auto found = live_.find(event.address);
  if (found == live_.end() || found->second.pending)
    return break_promise(event, "I9: free of what is not live");
  Grant& grant = found->second;
  if (event.bytes != grant.bytes || event.granted_bytes != grant.granted_bytes) {
    return break_promise(event, "I9: free and grant differ in size");
  }
  stats_.freed(grant.bytes, grant.granted_bytes);

  Uses uses;
  if (truth_ != nullptr) uses.push_back({grant.stream, queued(grant.stream)});
  for (const StreamId user : grant.users) uses.push_back({user, queued(user)});
  uses_.assign(event.address, event.address + grant.granted_bytes, uses);
  if (grant.users.empty()) {
    stats_.inactive(grant.granted_bytes);
    live_.erase(found);
  } else {
    grant.pending = true;
    grant.until = std::move(uses);
  }
}

void Validator::on_record_stream(const Event& event) {
  const auto found = live_.find(event.address);
  if (found == live_.end() || found->second.pending)
    return break_promise(event, "stream recorded on what is not live");
  if (StreamId{event.stream} != found->second.stream) found->second.users.push_back(StreamId{event.stream});
}

void Validator::on_block_ready(const Event& event) {
  const auto found = live_.find(event.address);
  if (found == live_.end() || !found->second.pending)
    return break_promise(event, "ready but was not pending");
  const Grant& grant = found->second;
  for (const StreamPoint& use : grant.until) {
    if (!stream_may_touch(grant.stream, use))
      return break_promise(event, "I8: ready while a stream may still touch it");
  }
  stats_.inactive(grant.granted_bytes);
  live_.erase(found);
}

void Validator::on_fence_recorded(const Event& event) {
  if (truth_ == nullptr) return;
  const StreamPoint point = truth_->point_of(FenceId{event.fence});
  if (point.stream != StreamId{event.stream})
    return break_promise(event, "fence on another stream than said");
  Clock clock = seen_[point.stream];
  clock[point.stream] = point.position;
  fences_[event.fence] = std::move(clock);
}

void Validator::on_fence_ordered(const Event& event) {
  if (truth_ == nullptr) return;
  const auto fence = fences_.find(event.fence);
  if (fence == fences_.end()) return break_promise(event, "ordered after an unknown fence");
  const StreamId stream{event.stream};
  const std::uint64_t before = queued(stream);
  apply_allocator_moments_until([&] { return queued(stream) > before; });
  if (queued(stream) == before) return break_promise(event, "said to be ordered, but the stream was not");
  Clock& seen = seen_[stream];
  for (const auto& [earlier, position] : fence->second) seen[earlier] = std::max(seen[earlier], position);
}

void Validator::on_fence_done(const Event& event) {
  if (truth_ == nullptr) return;
  const StreamPoint point = truth_->point_of(FenceId{event.fence});
  apply_allocator_moments_until([&] { return work_done(point); });
  if (!work_done(point)) return break_promise(event, "I8: fence said to be done before it was");
}

void Validator::on_reserve(const Event& event) {
  const Address end = event.address + event.bytes;
  const auto next = ranges_.lower_bound(event.address);
  const bool after_ok = next == ranges_.end() || next->first >= end;
  const bool before_ok =
      next == ranges_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= event.address;
  if (!after_ok || !before_ok) return break_promise(event, "ranges overlap");
  if (event.bytes == 0 || event.bytes % granule_bytes_ != 0)
    return break_promise(event, "range off the granule");
  ranges_.emplace(event.address, Range{event.bytes, 0});
}

void Validator::on_unreserve(const Event& event) {
  const auto found = ranges_.find(event.address);
  if (found == ranges_.end() || found->second.bytes != event.bytes)
    return break_promise(event, "unreserve of no range");
  if (found->second.committed_bytes != 0) return break_promise(event, "unreserve with memory behind it");
  ranges_.erase(found);
}

void Validator::on_commit(const Event& event) {
  const Address end = event.address + event.bytes;
  Range* range = range_holding(event.address, event.bytes);
  if (range == nullptr) return break_promise(event, "commit outside a range");
  if (event.address % granule_bytes_ != 0 || event.bytes % granule_bytes_ != 0 || event.bytes == 0) {
    return break_promise(event, "commit off the granule");
  }
  if (whole_only_ && event.bytes != range->bytes)
    return break_promise(event, "commit of a part of a whole-only range");
  if (committed_.intersects(event.address, end)) return break_promise(event, "commit of what is committed");
  committed_.assign(event.address, end, true);
  stats_.committed(event.bytes, range->committed_bytes == 0);
  range->committed_bytes += event.bytes;
  spent_[event.pool].reserved += event.bytes;
  if (event.pool != 0) {
    check_limit(event.pool, event);
    spent_[0].reserved += event.bytes;
  }
  check_limit(0, event);
}

void Validator::on_decommit(const Event& event) {
  const Address end = event.address + event.bytes;
  Range* range = range_holding(event.address, event.bytes);
  if (range == nullptr || event.bytes == 0 || !committed_.covers(event.address, end)) {
    return break_promise(event, "decommit of what is not committed");
  }
  if (event.address % granule_bytes_ != 0 || event.bytes % granule_bytes_ != 0) {
    return break_promise(event, "decommit off the granule");
  }
  if (grant_touching(event.address, end) != live_.end())
    return break_promise(event, "I13: decommit under a live block");
  bool done = true;
  uses_.for_each(event.address, end, [&](const Uses& uses) {
    for (const StreamPoint& use : uses) done = done && work_done(use);
  });
  if (!done) return break_promise(event, "I13: decommit while earlier work may still touch it");
  uses_.erase(event.address, end);
  committed_.erase(event.address, end);
  range->committed_bytes -= event.bytes;
  stats_.decommitted(event.bytes, range->committed_bytes == 0);
  spent_[event.pool].reserved -= event.bytes;
  if (event.pool != 0) spent_[0].reserved -= event.bytes;
}

void Validator::on_limit(const Event& event) {
  spent_[event.pool].limit = event.bytes;
  check_limit(event.pool, event);
}

void Validator::on_mark(const Event& event) {
  if (event.bytes > kResetAccumulatedMark) return;
  if (event.bytes == kResetPeakMark) return stats_.reset_peak();
  if (event.bytes == kResetAccumulatedMark) return stats_.reset_accumulated();
  if (event.bytes >= kTruthMark && truth_ != nullptr) apply_truth_up_to(event.bytes & kMarkValue);
}

void Validator::check_limit(std::uint8_t pool, const Event& event) {
  const Spent& spent = spent_[pool];
  if (spent.reserved > spent.limit) {
    break_promise(event, "I11: reserved " + std::to_string(spent.reserved) + " exceeds the limit " +
                             std::to_string(spent.limit) + " of pool " + std::to_string(pool));
  }
}

std::map<Address, Validator::Grant>::const_iterator Validator::grant_touching(Address begin,
                                                                              Address end) const {
  auto next = live_.lower_bound(begin);
  if (next != live_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.granted_bytes > begin) return before;
  }
  return next != live_.end() && next->first < end ? next : live_.end();
}

Validator::Range* Validator::range_holding(Address begin, std::size_t bytes) {
  auto range = ranges_.upper_bound(begin);
  if (range == ranges_.begin()) return nullptr;
  --range;
  const std::size_t offset = begin - range->first;
  return offset < range->second.bytes && bytes <= range->second.bytes - offset ? &range->second : nullptr;
}

bool Validator::work_done(const StreamPoint& point) const {
  const auto found = completed_.find(point.stream);
  return point.position <= (found == completed_.end() ? 0 : found->second);
}

bool Validator::stream_may_touch(StreamId stream, const StreamPoint& earlier) const {
  if (stream == earlier.stream || work_done(earlier)) return true;
  const auto seen = seen_.find(stream);
  if (seen == seen_.end()) return false;
  const auto position = seen->second.find(earlier.stream);
  return position != seen->second.end() && earlier.position <= position->second;
}

std::uint64_t Validator::queued(StreamId stream) const {
  const auto found = queued_.find(stream);
  return found == queued_.end() ? 0 : found->second;
}

void Validator::apply_truth_up_to(std::size_t log_size) {
  while (truth_at_ < log_size) apply(truth_->log_entry(truth_at_++));
}

// What the allocator itself does to streams, in order_after and wait, has no mark of its own; it lies before
// the event that tells of it and after the last mark.
template <class Condition>
void Validator::apply_allocator_moments_until(Condition met) {
  while (!met() && truth_at_ < truth_->log_size()) {
    const StreamMoment moment = truth_->log_entry(truth_at_);
    if (!moment.by_allocator) return;
    apply(moment);
    ++truth_at_;
  }
}

void Validator::apply(const StreamMoment& moment) {
  Clock& clock = moment.kind == StreamMoment::Kind::kQueued ? queued_ : completed_;
  clock[moment.point.stream] = moment.point.position;
}

void Validator::break_promise(const Event& event, const std::string& what) {
  if (violation_) return;
  std::ostringstream text;
  text << what << " [event " << event.sequence << ", kind " << static_cast<int>(event.kind) << ", address 0x"
       << std::hex << event.address << std::dec << ", bytes " << event.bytes << ", granted "
       << event.granted_bytes << ", stream " << event.stream << ", fence " << event.fence << ", heap "
       << event.heap << ", pool " << static_cast<int>(event.pool) << "]";
  violation_ = text.str();
}

}  // namespace cistern::support
