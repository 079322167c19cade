// A source that tells what came and went, for those who follow segments: traces, NCCL's registration hook.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cistern/core/memory_source.hpp"

namespace cistern {

struct SegmentEvent {
  Address address = 0;
  std::size_t bytes = 0;
  bool came = false;  ///< Else it went.
};

/// Forwards every call. What was committed and decommitted waits in a queue while somebody listens, so that listeners
/// are called later, under no lock.
/// Threads: the source's calls as MemorySource says; the rest from any thread at once.
class WatchedSource final : public MemorySource {
 public:
  explicit WatchedSource(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}

  const SourceTraits& traits() const noexcept override { return source_->traits(); }
  std::size_t available_bytes() const override { return source_->available_bytes(); }
  std::optional<SourceRange> reserve(std::size_t bytes) override;
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void unreserve(RangeId range) override;

  void listen(bool on) noexcept { listening_.store(on, std::memory_order_release); }
  /// Cost: one load.
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  /// In the order in which they happened.
  std::vector<SegmentEvent> take();

 private:
  void tell(RangeId range, std::size_t offset, std::size_t bytes, bool came);

  const std::unique_ptr<MemorySource> source_;
  std::map<RangeId, Address> addresses_;  ///< As the source's calls are, one thread at a time.
  std::atomic<bool> listening_{false};
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::vector<SegmentEvent> events_;  ///< Guarded by mutex_.
};

}  // namespace cistern
