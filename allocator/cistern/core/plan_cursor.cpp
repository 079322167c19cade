#include "cistern/core/plan_cursor.hpp"

#include <algorithm>

#include "cistern/base/units.hpp"

namespace cistern {

PlanCursor::PlanCursor(const PlanLane& lane, std::size_t least_block_bytes) : repeat_from_(lane.repeat_from) {
  offsets_.reserve(lane.requests.size());
  for (const PlannedRequest& request : lane.requests) offsets_.push_back(request.offset);
  std::sort(offsets_.begin(), offsets_.end());
  offsets_.erase(std::unique(offsets_.begin(), offsets_.end()), offsets_.end());
  requests_.reserve(lane.requests.size());
  for (const PlannedRequest& request : lane.requests) {
    const auto place = std::lower_bound(offsets_.begin(), offsets_.end(), request.offset) - offsets_.begin();
    requests_.push_back({round_up(request.bytes, least_block_bytes), static_cast<std::uint32_t>(place)});
  }
}

std::optional<std::uint32_t> PlanCursor::next(std::size_t granted_bytes) noexcept {
  std::size_t found = at_;
  if (lost_ || at_ == requests_.size() || requests_[at_].bytes != granted_bytes) found = search(granted_bytes);
  std::copy_backward(latest_.begin(), latest_.end() - 1, latest_.end());
  latest_.front() = granted_bytes;
  if (found == kNone) return std::nullopt;
  repeated_ = repeated_ || found + 1 == requests_.size();
  at_ = after(found);
  return requests_[found].place;
}

std::size_t PlanCursor::before(std::size_t at) const noexcept {
  const bool first = at == 0 || (at == repeat_from_ && repeated_);
  if (!first) return at - 1;
  return repeated_ && at == repeat_from_ ? requests_.size() - 1 : kNone;
}

std::size_t PlanCursor::agreeing(std::size_t at, std::size_t granted_bytes) const noexcept {
  if (at >= requests_.size() || requests_[at].bytes != granted_bytes) return 0;
  std::size_t run = 1;
  at = before(at);
  for (; run <= kMemory && at != kNone && requests_[at].bytes == latest_[run - 1]; at = before(at)) ++run;
  return run;
}

std::size_t PlanCursor::search(std::size_t granted_bytes) noexcept {
  std::size_t best = kNone;
  std::size_t best_run = 0;
  const auto consider = [&](std::size_t at, std::size_t least_run) {
    const std::size_t run = agreeing(at, granted_bytes);
    if (run <= best_run || run < least_run) return;
    best = at;
    best_run = run;
  };
  std::size_t at = at_;
  for (std::size_t ahead = 0; ahead <= kAhead && at < requests_.size(); ++ahead, at = after(at)) {
    consider(at, ahead <= kDropped ? 1 : kSure);
  }
  at = at_ <= requests_.size() ? before(at_) : kNone;
  for (std::size_t back = 0; back < kBack && at != kNone; ++back, at = before(at)) consider(at, kSure);
  // The job begins anew: from its start, or with what it repeats.
  const bool just_ended = repeated_ && at_ == repeat_from_;
  for (const std::size_t begin : {std::size_t{0}, repeat_from_}) {
    for (std::size_t i = 0; i < kMemory; ++i) consider(begin + i, i == 0 && just_ended ? 1 : kSure);
  }
  lost_ = best_run < kSure;
  lost_for_ = lost_ ? lost_for_ + 1 : 0;
  if (lost_for_ >= kLostLong) {
    lost_for_ = 0;
    for (at = 0; at < requests_.size(); ++at) consider(at, kMemory);
  }
  return best;
}

}  // namespace cistern
