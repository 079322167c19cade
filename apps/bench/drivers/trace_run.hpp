// Traces on one allocator. C++17, because peers' headers want no more. An Allocator has
//
//   explicit Allocator(const std::string& variant)   throws std::invalid_argument
//   void expect(const ReplayProgram& program)  which comes next: what plans may plan
//   void start(capacity_bytes, wish_bytes)   anew, on an empty device; preallocation takes wish_bytes
//   void stop()                              nothing is live any more
//   void* allocate(bytes, stream, pool)      null: out of memory; pool 0 is the common one
//   void free(data, bytes, stream)
//   void use(data, stream)                   another stream uses the block too
//   void sync(stream)                        the host has waited for the stream
//   void step()                              one operation later
//   Usage usage()
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cistern/observe/fit.hpp"
#include "cistern/observe/replay_program.hpp"
#include "figures.hpp"

namespace cistern::bench {

/// One trace on one allocator.
template <class Allocator>
class TraceRun {
 public:
  TraceRun(Allocator& allocator, const ReplayProgram& program)
      : allocator_(allocator), program_(program), blocks_(program.block_count) {}

  /// Runs the operations in order until one fails; `after` is called behind each. False: one failed.
  template <class After>
  bool run(After after) {
    for (const ReplayOperation& operation : program_.operations) {
      if (!perform(operation)) return false;
      allocator_.step();
      after(operation);
    }
    return true;
  }
  bool run() {
    return run([](const ReplayOperation&) {});
  }

  /// Frees what is live.
  void finish() {
    for (const ReplayOperation& operation : program_.operations) {
      if (operation.action != ReplayOperation::Action::kAllocate || blocks_[operation.block] == nullptr)
        continue;
      allocator_.free(blocks_[operation.block], operation.bytes, operation.stream);
      blocks_[operation.block] = nullptr;
    }
  }

 private:
  bool perform(const ReplayOperation& operation) {
    void*& block = blocks_[operation.block];
    switch (operation.action) {
      case ReplayOperation::Action::kAllocate:
        block = allocator_.allocate(operation.bytes, operation.stream, operation.pool);
        return block != nullptr;
      case ReplayOperation::Action::kFree:
        allocator_.free(block, operation.bytes, operation.stream);
        block = nullptr;
        return true;
      case ReplayOperation::Action::kUse:
        allocator_.use(block, operation.stream);
        return true;
      case ReplayOperation::Action::kSync:
        allocator_.sync(operation.stream);
        return true;
    }
    return false;
  }

  Allocator& allocator_;
  const ReplayProgram& program_;
  std::vector<void*> blocks_;  ///< By their numbers; null where none is live.
};

/// What a trace's preallocation gets in order to be timed; how little would do is fit's question.
inline std::uint64_t generous_bytes(const ReplayProgram& program) {
  return program.lower_bound_bytes / 4 * 5;
}

template <class Allocator>
Json replay(Allocator& allocator, const ReplayProgram& program, int round_count,
            std::uint64_t capacity_bytes) {
  allocator.expect(program);
  allocator.start(capacity_bytes, generous_bytes(program));
  TraceRun<Allocator> run(allocator, program);
  Json rounds = Json::array();
  bool completed = true;
  Usage before;
  for (int round = 0; completed && round < round_count; ++round) {
    const Clock::time_point start = Clock::now();
    completed = run.run();
    const double ns = nanoseconds_since(start) / static_cast<double>(program.operations.size());
    run.finish();
    const Usage after = allocator.usage();
    rounds.push_back({{"ns_per_operation", ns},
                      {"source_calls", after.source_calls - before.source_calls},
                      {"mapped_bytes", after.mapped_bytes - before.mapped_bytes}});
    before = after;
  }
  allocator.stop();
  return {{"operations", program.operations.size()},
          {"lower_bound_bytes", program.lower_bound_bytes},
          {"completed", completed},
          {"peak_reserved_bytes", before.peak_reserved_bytes},
          {"rounds", rounds}};
}

/// The highest value of each of at most kSlices equal stretches of the operations.
template <class Allocator>
Json timeline(Allocator& allocator, const ReplayProgram& program, std::uint64_t capacity_bytes) {
  constexpr std::size_t kSlices = 400;
  const std::size_t count = std::min(kSlices, program.operations.size());
  std::vector<std::uint64_t> live(count), reserved(count);
  std::uint64_t live_bytes = 0;
  std::size_t number = 0;
  allocator.expect(program);
  allocator.start(capacity_bytes, generous_bytes(program));
  TraceRun<Allocator> run(allocator, program);
  const bool completed = run.run([&](const ReplayOperation& operation) {
    if (operation.action == ReplayOperation::Action::kAllocate) live_bytes += operation.bytes;
    if (operation.action == ReplayOperation::Action::kFree) live_bytes -= operation.bytes;
    const std::size_t slice = number++ * count / program.operations.size();
    live[slice] = std::max(live[slice], live_bytes);
    reserved[slice] = std::max(reserved[slice], allocator.usage().reserved_bytes);
  });
  run.finish();
  allocator.stop();
  return {{"completed", completed}, {"live_bytes", live}, {"reserved_bytes", reserved}};
}

template <class Allocator>
Json fit(Allocator& allocator, const ReplayProgram& program, std::uint64_t step_bytes,
         std::uint64_t capacity_bytes) {
  constexpr std::uint64_t kMostSmaller = 64;  // peers take seconds for a trace
  allocator.expect(program);
  const auto completes = [&](std::uint64_t device_bytes) {
    allocator.start(device_bytes, device_bytes);
    TraceRun<Allocator> run(allocator, program);
    const bool completed = run.run();
    run.finish();
    allocator.stop();
    return completed;
  };
  // Four times what is live is more than anybody needs, and a preallocation of a whole device takes minutes
  // to prepare.
  const FitResult result =
      find_smallest_fit(program.lower_bound_bytes, std::min(capacity_bytes, 4 * program.lower_bound_bytes),
                        step_bytes, kMostSmaller, completes);
  return {{"lower_bound_bytes", program.lower_bound_bytes},
          {"fits", result.fits},
          {"smallest_bytes", result.smallest_bytes},
          {"smaller_tried", result.smaller_tried},
          {"smaller_count", result.smaller_count}};
}

}  // namespace cistern::bench
