// A source that knows how long pinning and unpinning took, as torch.cuda.host_memory_stats() reports.
#pragma once

#include <c10/core/Allocator.h>

#include <memory>
#include <mutex>
#include <vector>

#include "cistern/core/memory_source.hpp"

namespace cistern {

/// Forwards every call. Requires a whole_only source: memory comes in reserve and goes in unreserve.
/// Threads: the source's calls as MemorySource says; the rest from any thread at once.
class TimedSource final : public MemorySource {
 public:
  struct Times {
    c10::CachingAllocator::DurationStat pinning;    ///< Microseconds.
    c10::CachingAllocator::DurationStat unpinning;
    std::vector<std::int64_t> pinned_by_size;  ///< How often up to 2^i bytes were pinned.
  };

  /// `sizes`: how many classes of sizes are counted.
  TimedSource(std::unique_ptr<MemorySource> source, std::size_t sizes);

  const SourceTraits& traits() const noexcept override { return source_->traits(); }
  std::size_t available_bytes() const override { return source_->available_bytes(); }
  std::optional<SourceRange> reserve(std::size_t bytes) override;
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override {
    return source_->commit(range, offset, bytes);
  }
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override {
    source_->decommit(range, offset, bytes);
  }
  void unreserve(RangeId range) override;

  Times times() const;
  void reset_accumulated();
  void reset_peak();

 private:
  const std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;
  Times times_;  ///< Guarded by mutex_.
};

}  // namespace cistern
