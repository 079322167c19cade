#include "cistern/observe/replay.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "cistern/base/check.hpp"
#include "cistern/base/units.hpp"
#include "cistern/core/caching_allocator.hpp"

namespace cistern {
namespace {

class Pass {
 public:
  explicit Pass(const ReplayProgram& program) : program_(program), addresses_(program.block_count) {}

  /// Address 0 stands for an allocation that failed.
  void run(CachingAllocator& allocator) {
    for (const ReplayOperation& operation : program_.operations) {
      Address& address = addresses_[operation.block];
      if (operation.action == ReplayOperation::Action::kAllocate) {
        address = allocate(allocator, operation);
      } else if (address != 0) {
        allocator.free(address);
      }
    }
  }

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
      live[operation.block] = operation.action == ReplayOperation::Action::kAllocate;
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
    const Result<Allocation, Failure> result = allocator.allocate(request);
    if (result) return result->address;
    ++failure_count_;
    if (!first_failure_) first_failure_ = result.error();
    return 0;
  }

  const ReplayProgram& program_;
  std::vector<Address> addresses_;
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
