#include "cistern/observe/replay.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "cistern/base/check.hpp"
#include "cistern/base/units.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "cistern/observe/replay_streams.hpp"

namespace cistern {
namespace {

class Pass {
 public:
  explicit Pass(const ReplayProgram& program) : program_(program), addresses_(program.block_count) {}

  /// Address 0 stands for an allocation that failed.
  void run(CachingAllocator& allocator) {
    for (const ReplayOperation& operation : program_.operations) {
      Address& address = addresses_[operation.block];
      switch (operation.action) {
        case ReplayOperation::Action::kAllocate:
          address = allocate(allocator, operation);
          break;
        case ReplayOperation::Action::kFree:
          if (address != 0) allocator.free(address);
          break;
        case ReplayOperation::Action::kUse:
          if (address != 0) allocator.record_stream(address, StreamId{operation.stream});
          if (streams_ != nullptr) streams_->work(StreamId{operation.stream});
          break;
        case ReplayOperation::Action::kSync:
          if (streams_ != nullptr) streams_->sync(StreamId{operation.stream});
          break;
      }
      if (streams_ != nullptr) streams_->advance();
    }
  }

  /// The streams that kSync means.
  void on(ReplayStreams& streams) noexcept { streams_ = &streams; }
  /// Private pools that are there already, by their numbers in the program from 1.
  void in(std::vector<PoolId> pools) noexcept { pools_ = std::move(pools); }
  std::vector<PoolId> pools() const { return pools_; }

  /// As run; returns nanoseconds.
  double run_timed(CachingAllocator& allocator) {
    const auto start = std::chrono::steady_clock::now();
    run(allocator);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  }

  /// Frees what the trace left live.
  void finish(CachingAllocator& allocator) const {
    std::vector<bool> live(program_.block_count);
    for (const ReplayOperation& operation : program_.operations) {
      if (operation.action == ReplayOperation::Action::kAllocate) live[operation.block] = true;
      if (operation.action == ReplayOperation::Action::kFree) live[operation.block] = false;
    }
    for (std::uint32_t block = 0; block < program_.block_count; ++block) {
      if (live[block] && addresses_[block] != 0) allocator.free(addresses_[block]);
    }
  }

  /// FNV-1a, eight bytes at a time.
  std::uint64_t placement_hash() const {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const Address address : addresses_) hash = (hash ^ address) * 0x100000001b3;
    return hash;
  }

  std::uint64_t failure_count() const noexcept { return failure_count_; }
  const std::optional<Failure>& first_failure() const noexcept { return first_failure_; }

 private:
  Address allocate(CachingAllocator& allocator, const ReplayOperation& operation) {
    Request request;
    request.bytes = operation.bytes;
    request.stream = StreamId{operation.stream};
    while (pools_.size() < operation.pool) pools_.push_back(allocator.create_pool());
    if (operation.pool != 0) request.pool = pools_[operation.pool - 1];
    const Result<Allocation, Failure> result = allocator.allocate(request);
    if (streams_ != nullptr) streams_->work(request.stream);
    if (result) return result->address;
    ++failure_count_;
    if (!first_failure_) first_failure_ = result.error();
    return 0;
  }

  const ReplayProgram& program_;
  std::vector<Address> addresses_;
  std::vector<PoolId> pools_;
  ReplayStreams* streams_ = nullptr;
  std::uint64_t failure_count_ = 0;
  std::optional<Failure> first_failure_;
};

class EventCollector final : public EventSink {
 public:
  void consume(std::span<const Event> events) override {
    events_.insert(events_.end(), events.begin(), events.end());
  }

  std::vector<Event> take() {
    std::sort(events_.begin(), events_.end(),
              [](const Event& left, const Event& right) { return left.sequence < right.sequence; });
    return std::move(events_);
  }

 private:
  std::vector<Event> events_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::size_t default_preallocate_bytes(const ReplayProgram& program, std::size_t granule_bytes) noexcept {
  return round_up(program.lower_bound_bytes + program.lower_bound_bytes / 20, granule_bytes);
}

ReplayResult replay(const ReplayProgram& program, const Options& options, MemorySource& source,
                    int pass_count) {
  CISTERN_CHECK_LE(1, pass_count);
  ReplayResult result;
  std::vector<double> cold_ns;
  std::vector<double> warm_ns;
  for (int number = 0; number < pass_count; ++number) {
    CachingAllocator allocator(options, source);
    Pass pass(program);
    cold_ns.push_back(pass.run_timed(allocator));
    if (number == 0) {
      result.stats = allocator.stats();
      result.placement_hash = pass.placement_hash();
      result.failure_count = pass.failure_count();
      result.first_failure = pass.first_failure();
    }
    pass.finish(allocator);
    warm_ns.push_back(pass.run_timed(allocator));
    pass.finish(allocator);
  }
  const auto operation_count = static_cast<double>(program.operations.size());
  result.ns_per_operation = median(std::move(cold_ns)) / operation_count;
  result.warm_ns_per_operation = median(std::move(warm_ns)) / operation_count;
  result.lower_bound_bytes = program.lower_bound_bytes;
  result.peak_reserved_bytes = result.stats.reserved.peak;
  result.ratio =
      static_cast<double>(result.peak_reserved_bytes) / static_cast<double>(result.lower_bound_bytes);
  return result;
}

std::vector<ReplayRound> replay_rounds(const ReplayProgram& program, const Options& options, MemorySource& source,
                                       const RoundSettings& settings) {
  ReplayStreams streams(settings.device_lag);
  CachingAllocator allocator(options, source, &streams);
  std::vector<ReplayRound> rounds;
  std::vector<PoolId> pools;
  for (int number = 0; number < settings.round_count; ++number) {
    allocator.reset_peak();
    const Stats before = allocator.stats();
    const std::uint64_t waits_before = streams.wait_count();
    Pass pass(program);
    pass.on(streams);
    pass.in(pools);
    pass.run(allocator);
    const Stats after = allocator.stats();
    pools = pass.pools();
    ReplayRound& round = rounds.emplace_back();
    round.peak_reserved_bytes = after.reserved.peak;
    round.source_calls = after.source_calls - before.source_calls;
    round.mapped_bytes = after.reserved.allocated - before.reserved.allocated;
    round.wait_count = streams.wait_count() - waits_before;
    round.failure_count = pass.failure_count();
    round.first_failure = pass.first_failure();
    pass.finish(allocator);
    streams.advance();
  }
  return rounds;
}

std::vector<Event> replay_events(const ReplayProgram& program, const Options& options, MemorySource& source) {
  EventCollector collector;
  CachingAllocator allocator(options, source);
  Pass pass(program);
  allocator.start_recording(collector);
  pass.run(allocator);
  allocator.stop_recording();
  pass.finish(allocator);
  return collector.take();
}

}  // namespace cistern
