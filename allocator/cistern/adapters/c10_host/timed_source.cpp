#include "cistern/adapters/c10_host/timed_source.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

namespace cistern {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t microseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

}  // namespace

TimedSource::TimedSource(std::unique_ptr<MemorySource> source, std::size_t sizes) : source_(std::move(source)) {
  times_.pinned_by_size.resize(sizes);
}

std::optional<SourceRange> TimedSource::reserve(std::size_t bytes) {
  const Clock::time_point start = Clock::now();
  const auto range = source_->reserve(bytes);
  if (!range) return range;
  const auto size = static_cast<std::size_t>(std::bit_width(bytes - 1));
  const std::scoped_lock lock(mutex_);
  times_.pinning.increase(microseconds_since(start));
  ++times_.pinned_by_size[std::min(size, times_.pinned_by_size.size() - 1)];
  return range;
}

void TimedSource::unreserve(RangeId range) {
  const Clock::time_point start = Clock::now();
  source_->unreserve(range);
  const std::scoped_lock lock(mutex_);
  times_.unpinning.increase(microseconds_since(start));
}

TimedSource::Times TimedSource::times() const {
  const std::scoped_lock lock(mutex_);
  return times_;
}

void TimedSource::reset_accumulated() {
  const std::scoped_lock lock(mutex_);
  times_.pinning.reset_accumulated();
  times_.unpinning.reset_accumulated();
  std::fill(times_.pinned_by_size.begin(), times_.pinned_by_size.end(), 0);
}

void TimedSource::reset_peak() {
  const std::scoped_lock lock(mutex_);
  times_.pinning.reset_peak();
  times_.unpinning.reset_peak();
}

}  // namespace cistern
