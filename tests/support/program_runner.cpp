#include "support/program_runner.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/hand_fences.hpp"
#include "support/snapshot_check.hpp"
#include "support/validator.hpp"

namespace cistern::support {
namespace {

constexpr std::size_t kStepsBetweenChecks = 64;

SimulatedOptions source_options(const Setup& setup) {
  SimulatedOptions options;
  options.granule_bytes = setup.granule;
  options.capacity_bytes = setup.capacity;
  options.range_step_bytes = setup.range_step;
  options.whole_only = setup.whole_only != 0;
  return options;
}

StreamId stream_of(const Setup& setup, std::uint64_t number) { return StreamId{1 + number % setup.streams}; }

/// What the program asks for, in order; steps of odd bytes have another size than planned. Places follow each other up
/// to a height and then from the bottom again, whatever lives there.
std::shared_ptr<const Plan> plan_for(const Program& program) {
  const Setup& setup = program.setup;
  Plan plan;
  plan.unit_bytes = setup.least_block;
  const std::size_t height = setup.capacity / 2 / setup.granule * setup.granule;
  std::map<std::pair<std::uint16_t, std::uint64_t>, std::size_t> lanes;
  std::vector<std::size_t> ends;
  for (const Step& step : program.steps) {
    if (step.op != Op::kAllocate) continue;
    const PoolId pool{static_cast<std::uint16_t>(step.d % (setup.pools + 1))};
    const StreamId stream = stream_of(setup, step.c);
    const auto [lane, is_new] = lanes.try_emplace({pool.value, stream.value}, plan.lanes.size());
    if (is_new) {
      plan.lanes.push_back({stream, pool, height, 0, {}});
      ends.push_back(0);
    }
    const std::size_t bytes = std::max<std::uint64_t>(step.a, 1) + (step.a % 16 == 1 ? setup.least_block : 0);
    std::size_t& end = ends[lane->second];
    if (bytes > height) continue;
    if (end + bytes > height) end = 0;
    plan.lanes[lane->second].requests.push_back({bytes, end});
    end += round_up(bytes, setup.least_block);
  }
  return std::make_shared<const Plan>(std::move(plan));
}

Options options_for(const Program& program) {
  Options options = program.setup.options();
  if (options.strategy == Strategy::kPlan) options.plan = plan_for(program);
  return options;
}

class Runner {
 public:
  explicit Runner(const Program& program)
      : setup_(program.setup),
        source_(source_options(setup_)),
        fences_(setup_.fences != 0 ? std::make_unique<HandFences>() : nullptr),
        allocator_(std::make_unique<CachingAllocator>(options_for(program), source_, fences_.get())),
        validator_(source_.traits(), setup_.least_block, fences_.get()) {
    source_.refuse_when([this](const SourceCall&) { return refuse(); });
    validator_.tell_classes(setup_.options());
    allocator_->start_recording(validator_);
    for (std::size_t pool = 0; pool < setup_.pools; ++pool) {
      pools_.push_back(allocator_->create_pool({setup_.pool_limit != 0 ? setup_.pool_limit : kNoLimit}));
    }
  }

  Outcome run(const Program& program) {
    for (const Step& step : program.steps) {
      take(step);
      tell_truth();
      if (++outcome_.step_count % kStepsBetweenChecks == 0) check_state();
      if (const auto& broken = validator_.violation(); broken && !outcome_.violation)
        outcome_.violation = *broken;
      if (outcome_.violation) return abandon(program);
    }
    wind_up();
    return outcome_;
  }

 private:
  struct Live {
    Allocation allocation;
    StreamId stream;
    bool used_elsewhere = false;
  };

  void take(const Step& step) {
    switch (step.op) {
      case Op::kAllocate:
        return allocate(step);
      case Op::kFree:
        return free(step.a);
      case Op::kBadFree:
        return bad_free(step);
      case Op::kRecordStream:
        return record_stream(step);
      case Op::kQueue:
        if (fences_) fences_->queue(stream(step.a));
        return;
      case Op::kComplete:
        if (fences_) fences_->complete(stream(step.a), step.b);
        return;
      case Op::kTrim:
        return trim(step.a);
      case Op::kTick:
        return give_back([&] { return allocator_->tick(); });
      case Op::kSetLimit:
        return set_limit(step);
      case Op::kClearLimit:
        return allocator_->clear_limit(pool(step.a));
      case Op::kRefuse:
        refusals_left_ = step.a;
        return;
      case Op::kCapture:
        if (fences_) fences_->set_capturing(step.a != 0);
        return;
      case Op::kReset:
        return reset(step.a);
    }
  }

  void allocate(const Step& step) {
    Request request;
    request.bytes = std::max<std::uint64_t>(step.a, 1);
    request.alignment = std::min(std::size_t{1} << (step.b % 24), setup_.granule);
    request.stream = stream(step.c);
    request.pool = pool(step.d);
    const Stats before = allocator_->stats();
    refused_ = 0;
    const auto result = allocator_->allocate(request);
    if (!result) return check_failure(request, result.error(), before);
    if (result->address % request.alignment != 0) fail("I7: the grant misses the alignment asked for");
    if (result->requested_bytes != request.bytes) fail("the grant names another size than was asked");
    if (result->granted_bytes < request.bytes) fail("I7: granted less than asked");
    live_.push_back({*result, request.stream});
  }

  // I12: nothing but counters changed. Trimming and reaping on the way to the failure are no change to the
  // caller.
  void check_failure(const Request& request, const Failure& failure, const Stats& before) {
    const Stats after = allocator_->stats();
    if (after.requested.current != before.requested.current ||
        after.allocated.current != before.allocated.current ||
        after.allocations.allocated != before.allocations.allocated) {
      fail("I12: a failed request changed what is live");
    }
    if (after.reserved.current > before.reserved.current) fail("I12: a failed request left memory reserved");
    if (after.requested.peak != before.requested.peak) fail("I12: a failed request moved a peak");
    if (failure.asked_bytes != request.bytes) fail("the failure names another size than was asked");
    if (refused_ != 0 || failure.code == FailureCode::kTooLarge) return;
    const std::size_t most = std::min(failure.limit_bytes, setup_.capacity);
    if (failure.need_bytes > most) return;
    if (fences_ && !fences_->capturing() && after.pending_bytes != 0) {
      fail("failed though a pending block could be waited for");
    }
    if (after.reserved.current <= most - failure.need_bytes) {
      fail("failed though the need fits: " + failure.explain());
    }
  }

  void free(std::uint64_t which) {
    if (live_.empty()) return;
    const std::size_t at = which == kForever ? live_.size() - 1 : which % live_.size();
    const Live gone = live_[at];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    const auto found = allocator_->find(gone.allocation.address);
    if (!found || found->requested_bytes != gone.allocation.requested_bytes ||
        found->granted_bytes != gone.allocation.granted_bytes) {
      fail("I9: a live grant is not found as it was granted");
    }
    const FreeOutcome outcome = allocator_->free(gone.allocation.address);
    if (outcome == FreeOutcome::kNotLive) fail("I9: a live grant was said not to be live");
    if (outcome == FreeOutcome::kPending && !gone.used_elsewhere)
      fail("pending though one stream alone used it");
    freed_ = gone.allocation.address;
  }

  void bad_free(const Step& step) {
    Address address = 12345;
    if (step.a % 4 == 0) address = 0;
    if (step.a % 4 == 1) address = freed_;
    if (step.a % 4 == 2 && !live_.empty()) {
      const Allocation& near = live_[step.b % live_.size()].allocation;
      address = near.address + 1 + step.b % near.granted_bytes;
    }
    const auto same = [&](const Live& live) { return live.allocation.address == address; };
    if (std::any_of(live_.begin(), live_.end(), same)) return;
    const Stats before = allocator_->stats();
    if (allocator_->find(address)) fail("I9: found what is not live");
    if (allocator_->free(address) != FreeOutcome::kNotLive) fail("I9: freed what was not live");
    if (allocator_->record_stream(address, stream(0))) fail("I9: recorded a stream on what was not live");
    const Stats after = allocator_->stats();
    if (after.allocations.freed != before.allocations.freed ||
        after.active.current != before.active.current) {
      fail("I12: a bad free changed something");
    }
  }

  void record_stream(const Step& step) {
    if (live_.empty()) return;
    Live& live = live_[step.a % live_.size()];
    live.used_elsewhere |= fences_ && stream(step.b) != live.stream;
    if (!allocator_->record_stream(live.allocation.address, stream(step.b)))
      fail("I9: a live grant said not to be");
  }

  void trim(std::uint64_t keep_bytes) {
    give_back([&] { return allocator_->trim(keep_bytes); });
  }

  template <class GiveBack>
  void give_back(GiveBack give) {
    const std::size_t before = allocator_->stats().reserved.current;
    const std::size_t given = give();
    if (before - allocator_->stats().reserved.current != given)
      fail("another number of bytes went back than was said");
  }

  void set_limit(const Step& step) {
    const PoolId of = pool(step.b);
    const std::size_t before = allocator_->limit_bytes(of);
    const std::size_t wanted = std::max<std::size_t>(step.a, 1);
    limited_ = true;
    const auto result = allocator_->set_limit(wanted, of);
    const std::size_t after = allocator_->limit_bytes(of);
    if (result && after != wanted) fail("a new limit was accepted and not kept");
    if (!result && after != before) fail("I12: a refused limit changed the limit");
    if (!result && result.error().code != FailureCode::kInUse)
      fail("a limit was refused for another reason than use");
    if (result && of == PoolId{} && allocator_->stats().reserved.current > wanted)
      fail("I11: reserved above a new limit");
  }

  void reset(std::uint64_t which) {
    if (which % 2 == 0) {
      allocator_->reset_peak();
      allocator_->mark(kResetPeakMark);
    } else {
      allocator_->reset_accumulated();
      allocator_->mark(kResetAccumulatedMark);
    }
  }

  void check_state() {
    allocator_->audit();
    const Stats stats = allocator_->stats();
    if (const auto broken = broken_order(stats)) fail(*broken);
    const std::vector<RangeInfo> snapshot = allocator_->snapshot();
    if (const auto broken = broken_tiling(snapshot, stats)) fail(*broken);
    if (stats.allocations.current != live_.size()) fail("the allocator counts another number of live grants");
    if (!source_.traits().whole_only && stats.reserved.current != source_.held_bytes()) {
      fail("I5: the source holds " + std::to_string(source_.held_bytes()) + ", reserved is " +
           std::to_string(stats.reserved.current));
    }
  }

  /// I10, and the event-derived statistics, once everything is free and every stream idle.
  void wind_up() {
    refusals_left_ = 0;
    if (fences_) fences_->set_capturing(false);
    while (!live_.empty()) free(kForever);
    if (fences_) fences_->complete_everything();
    tell_truth();
    allocator_->trim();
    check_state();
    const Stats stats = allocator_->stats();
    if (stats.active.current != 0) fail("I10: bytes are active after everything was freed and trimmed");
    if (setup_.strategy != static_cast<std::size_t>(Strategy::kPreallocate) && stats.reserved.current != 0) {
      fail("I10: " + std::to_string(stats.reserved.current) + " bytes stay reserved after a trim");
    }
    allocator_->stop_recording();
    validator_.finish();
    if (validator_.violation()) fail(*validator_.violation());
    if (const auto differs = validator_.stats().difference(stats)) fail(*differs);
    if (!limited_ && stats.source_calls.refused == 0 && setup_.slack_percent == 100) {
      if (const auto differs = validator_.stats().class_difference(stats)) fail(*differs);
    }
    if (validator_.live_count() != 0) fail("events leave blocks live");
    outcome_.served = stats.served;
    outcome_.source_calls = stats.source_calls;
    outcome_.event_count = validator_.event_count();
    if (fences_) outcome_.wait_count = fences_->wait_count();
    allocator_.reset();
    if (source_.held_bytes() != 0 || source_.range_count() != 0)
      fail("the source holds something after the end");
    if (fences_ && fences_->held_count() != 0) fail("fences were never released");
  }

  /// Leaves the allocator as it is: after a broken promise its destructor may not be able to run.
  Outcome abandon(const Program& program) {
    *outcome_.violation +=
        "\n  at step " + std::to_string(outcome_.step_count) + " of " + std::to_string(program.steps.size());
    allocator_->stop_recording();
    static_cast<void>(allocator_.release());
    return outcome_;
  }

  void fail(const std::string& what) {
    if (!outcome_.violation) outcome_.violation = what;
  }

  bool refuse() {
    if (refusals_left_ == 0) return false;
    if (refusals_left_ != kForever) --refusals_left_;
    ++refused_;
    return true;
  }

  // What tests did to streams since the last step, for the validator to catch up with before the next event.
  void tell_truth() {
    if (!fences_ || fences_->log_size() == told_) return;
    told_ = fences_->log_size();
    allocator_->mark(kTruthMark + told_);
  }

  StreamId stream(std::uint64_t number) const { return stream_of(setup_, number); }
  PoolId pool(std::uint64_t number) const {
    const std::uint64_t index = number % (pools_.size() + 1);
    return index == 0 ? PoolId{} : pools_[index - 1];
  }

  const Setup setup_;
  SimulatedSource source_;
  std::unique_ptr<HandFences> fences_;
  std::unique_ptr<CachingAllocator> allocator_;
  Validator validator_;
  std::vector<PoolId> pools_;
  std::vector<Live> live_;
  Address freed_ = 0;
  std::uint64_t refusals_left_ = 0;
  std::uint64_t refused_ = 0;
  std::size_t told_ = 0;
  bool limited_ = setup_.limit != 0 || setup_.pool_limit != 0;  ///< Was there ever a limit?
  Outcome outcome_;
};

}  // namespace

Outcome run_program(const Program& program) {
  return Runner(program).run(program);
}

}  // namespace cistern::support
