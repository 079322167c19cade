// An independent judge of a recording: it sees events and nothing else of the allocator, shares no code with
// the heap, and is plain enough to be believed. With HandFences it also knows the truth of every stream at
// every event.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cistern/core/config.hpp"
#include "cistern/core/event.hpp"
#include "cistern/core/growth_policy.hpp"
#include "cistern/core/memory_source.hpp"
#include "support/hand_fences.hpp"
#include "support/interval_map.hpp"
#include "support/replayed_stats.hpp"

namespace cistern::support {

/// What the numbers of CachingAllocator::mark mean to the validator: a meaning in the top byte and a value
/// below it.
inline constexpr std::uint64_t kTruthMark = std::uint64_t{1} << 56;      ///< + HandFences::log_size().
inline constexpr std::uint64_t kResetPeakMark = std::uint64_t{2} << 56;  ///< After reset_peak().
inline constexpr std::uint64_t kResetAccumulatedMark = std::uint64_t{3}
                                                       << 56;  ///< After reset_accumulated().

/// Checks, at every event: grants do not overlap, lie in committed memory, meet the least alignment and size
/// (I7); no byte is granted while work queued before its last free could still touch it (I8); frees match
/// grants (I9); reserved stays within every limit (I11); no byte is decommitted while work could still touch
/// it (I13); source calls keep the source's contract. Keeps the first broken promise and ignores all events
/// after it.
class Validator final : public EventSink {
 public:
  /// `truth` may be null: without fences I8 and I13 hold by themselves; with fences that several threads work
  /// they are then left unchecked.
  Validator(const SourceTraits& traits, std::size_t least_block_bytes, const HandFences* truth = nullptr);

  void consume(std::span<const Event> events) override;

  /// Requires that stop_recording was called. Breaks a promise if events are missing in the middle.
  void finish();

  const std::optional<std::string>& violation() const noexcept { return violation_; }
  const ReplayedStats& stats() const noexcept { return stats_; }
  /// Tells small blocks from large ones in stats(). Requires that nothing was consumed yet; `options` as the allocator's.
  void tell_classes(const Options& options) {
    stats_.small_block_bytes = separates_small_ranges(options.strategy) ? options.small_block_bytes : 0;
  }
  std::size_t live_count() const noexcept { return live_.size(); }
  std::uint64_t event_count() const noexcept { return next_sequence_; }
  std::uint64_t out_of_memory_count() const noexcept { return out_of_memory_count_; }
  std::size_t committed_bytes() const noexcept { return stats_.reserved.current; }

 private:
  struct Grant {
    std::size_t bytes = 0;
    std::size_t granted_bytes = 0;
    StreamId stream;
    bool pending = false;
    std::vector<StreamId> users;     ///< Streams recorded on it besides its owner.
    std::vector<StreamPoint> until;  ///< Pending: the work that must be done first.
  };
  struct Range {
    std::size_t bytes = 0;
    std::size_t committed_bytes = 0;
  };
  struct Spent {
    std::uint64_t limit = ~std::uint64_t{0};
    std::uint64_t reserved = 0;
  };
  using Uses = std::vector<StreamPoint>;
  using Clock = std::map<StreamId, std::uint64_t>;

  void check(const Event& event);
  void on_allocate(const Event& event);
  void on_free(const Event& event);
  void on_record_stream(const Event& event);
  void on_fence_recorded(const Event& event);
  void on_fence_ordered(const Event& event);
  void on_fence_done(const Event& event);
  void on_block_ready(const Event& event);
  void on_reserve(const Event& event);
  void on_unreserve(const Event& event);
  void on_commit(const Event& event);
  void on_decommit(const Event& event);
  void on_limit(const Event& event);
  void on_mark(const Event& event);

  void check_limit(std::uint8_t pool, const Event& event);
  /// The live or pending grant that touches [begin, end), or end().
  std::map<Address, Grant>::const_iterator grant_touching(Address begin, Address end) const;
  Range* range_holding(Address begin, std::size_t bytes);
  bool work_done(const StreamPoint& point) const;
  bool stream_may_touch(StreamId stream, const StreamPoint& earlier) const;
  void apply_truth_up_to(std::size_t log_size);
  template <class Condition>
  void apply_allocator_moments_until(Condition met);
  void apply(const StreamMoment& moment);
  std::uint64_t queued(StreamId stream) const;
  void break_promise(const Event& event, const std::string& what);

  const std::size_t granule_bytes_;
  const bool whole_only_;
  const std::size_t least_block_bytes_;
  const HandFences* const truth_;

  std::map<std::uint64_t, Event> early_;  ///< Delivered before their turn, by sequence.
  std::uint64_t next_sequence_ = 0;
  std::uint64_t out_of_memory_count_ = 0;

  std::map<Address, Grant> live_;
  std::map<Address, Range> ranges_;
  IntervalMap<bool> committed_;
  IntervalMap<Uses> uses_;  ///< Of bytes that are free: the work that may still touch them.
  std::map<std::uint8_t, Spent> spent_;

  std::size_t truth_at_ = 0;  ///< Entries of the truth's log that have happened by now.
  Clock queued_;
  Clock completed_;
  std::map<StreamId, Clock> seen_;         ///< What each stream's next work starts after.
  std::map<std::uint64_t, Clock> fences_;  ///< By fence: the work it stands behind.

  ReplayedStats stats_;
  std::optional<std::string> violation_;
};

}  // namespace cistern::support
