// Whole traces: how much growth reserves above what is live, and that no change moves a single block
// unnoticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cistern/observe/make_plan.hpp"
#include "cistern/observe/replay.hpp"
#include "cistern/observe/trace.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/temporary_folder.hpp"
#include "support/world.hpp"
#include "workloads/workloads.hpp"

namespace cistern {
namespace {

namespace fs = std::filesystem;

const fs::path kHere = fs::path(CISTERN_SOURCE_DIR) / "tests/replay";

fs::path shared_traces() {
  const char* folder = std::getenv("CISTERN_SHARED_DATA");
  return (folder != nullptr ? fs::path(folder) : fs::path(CISTERN_SOURCE_DIR) / "../shared/data") / "traces";
}

std::vector<fs::path> traces_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    if (entry.path().extension() == ".gz") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// One line of golden.csv.
struct Golden {
  std::string trace;
  std::string strategy;
  std::string peak_reserved_bytes;
  std::string placement_hash;
};

std::vector<Golden> golden_placements() {
  std::ifstream file(kHere / "golden.csv");
  std::vector<Golden> result;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    Golden golden;
    std::getline(fields, golden.trace, ',');
    std::getline(fields, golden.strategy, ',');
    std::getline(fields, golden.peak_reserved_bytes, ',');
    std::getline(fields, golden.placement_hash, ',');
    if (golden.trace != "trace") result.push_back(golden);
  }
  return result;
}

/// As `cistern replay --strategy` does without other flags; the plan is what the quick passes find, whatever the time.
ReplayResult replay_as_program_does(const ReplayProgram& program, Strategy strategy) {
  SimulatedSource source;
  Options options;
  options.strategy = strategy;
  if (strategy == Strategy::kPreallocate) {
    options.preallocate = Amount{default_preallocate_bytes(program, source.traits().granule_bytes)};
  }
  if (strategy == Strategy::kPlan) {
    PlanOptions plan;
    plan.unit_bytes = options.least_block_bytes;
    plan.granule_bytes = source.traits().granule_bytes;
    plan.seconds = 0.0;
    options.plan = std::make_shared<const Plan>(make_plan(program, plan).plan);
  }
  return replay(program, options, source);
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << number;
  return text.str();
}

void expect_golden_placements(const fs::path& folder) {
  const std::vector<Golden> all = golden_placements();
  ASSERT_FALSE(all.empty());
  for (const fs::path& path : traces_in(folder)) {
    const ReplayProgram program = load_replay_program(path.string());
    std::size_t found = 0;
    for (const Golden& golden : all) {
      if (golden.trace != program.name) continue;
      ++found;
      const ReplayResult result = replay_as_program_does(program, *strategy_from_name(golden.strategy));
      EXPECT_EQ(std::to_string(result.peak_reserved_bytes) + "," + hexadecimal(result.placement_hash),
                golden.peak_reserved_bytes + "," + golden.placement_hash)
          << program.name << " under " << golden.strategy
          << ": if the move is wanted, tests/replay/write_golden.py";
    }
    EXPECT_GT(found, 0u) << "golden.csv says nothing of " << program.name;
  }
}

TEST(OwnTraces, EveryBlockIsWhereItWas) {
  ASSERT_EQ(traces_in(kHere / "traces").size(), 4u);
  expect_golden_placements(kHere / "traces");
}

TEST(OwnTraces, GrowthStaysNearTheLowerBound) {
  for (const fs::path& path : traces_in(kHere / "traces")) {
    const ReplayProgram program = load_replay_program(path.string());
    const ReplayResult result = replay_as_program_does(program, Strategy::kGrowth);
    EXPECT_EQ(result.failure_count, 0u);
    EXPECT_LE(result.ratio, 1.06) << program.name;
  }
}

TEST(OwnTraces, AReplayRecordedReplaysAlike) {
  const TemporaryFolder folder;
  for (const fs::path& path : traces_in(kHere / "traces")) {
    const ReplayProgram program = load_replay_program(path.string());
    SimulatedSource source;
    TraceWriter writer(folder.path("recorded.trace"), {});
    writer.consume(replay_events(program, Options{}, source));
    writer.close();
    const ReplayProgram recorded = load_replay_program(folder.path("recorded.trace"));
    EXPECT_EQ(recorded.operations.size(), program.operations.size());
    EXPECT_EQ(recorded.lower_bound_bytes, program.lower_bound_bytes);
    EXPECT_EQ(replay_as_program_does(recorded, Strategy::kGrowth).placement_hash,
              replay_as_program_does(program, Strategy::kGrowth).placement_hash)
        << program.name;
  }
}

class SharedTraces : public testing::Test {
 protected:
  void SetUp() override {
    if (traces_in(shared_traces()).empty()) {
      GTEST_SKIP() << "NOT TRIED: the nine shared traces are not at " << shared_traces()
                   << "; CISTERN_SHARED_DATA may name the folder that holds traces/";
    }
  }
};

TEST_F(SharedTraces, GrowthStaysWithinTheBars) {
  const std::vector<fs::path> paths = traces_in(shared_traces());
  ASSERT_EQ(paths.size(), 9u);
  int close_count = 0;
  for (const fs::path& path : paths) {
    const ReplayProgram program = load_replay_program(path.string());
    const ReplayResult result = replay_as_program_does(program, Strategy::kGrowth);
    EXPECT_EQ(result.failure_count, 0u);
    EXPECT_LE(result.ratio, 1.036) << program.name;
    close_count += result.ratio <= 1.015 ? 1 : 0;
  }
  EXPECT_GE(close_count, 8) << "within 1.015";
}

/// What PyTorch's own allocator takes on the same trace: the most it reserved when the trace was recorded, and how often
/// it asks for memory in a first replay over a device that refuses nothing (native_figures.py).
struct Native {
  std::uint64_t recorded_peak_bytes = 0;
  std::uint64_t calls = 0;
};

std::map<std::string, Native> native_figures() {
  std::ifstream file(kHere / "native.csv");
  std::map<std::string, Native> result;
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    Native native;
    char comma = 0;
    std::getline(fields, name, ',');
    fields >> native.recorded_peak_bytes >> comma >> native.calls;
    result[name] = native;
  }
  return result;
}

/// Four rounds on one allocator, with a device that does nothing until it is waited for.
std::vector<ReplayRound> four_rounds(const ReplayProgram& program, const SimulatedOptions& memory, const Options& options = {}) {
  SimulatedSource source(memory);
  return replay_rounds(program, options, source);
}

std::uint64_t peak_of(const std::vector<ReplayRound>& rounds) {
  std::uint64_t peak = 0;
  for (const ReplayRound& round : rounds) peak = std::max(peak, round.peak_reserved_bytes);
  return peak;
}

/// A share of the lower bound, and something more.
std::uint64_t bar(const ReplayProgram& program, std::uint64_t per_mille, std::uint64_t more) {
  return program.lower_bound_bytes / 1000 * per_mille + more;
}

std::uint64_t requested_bytes(const ReplayProgram& program) {
  std::uint64_t bytes = 0;
  for (const ReplayOperation& operation : program.operations) {
    if (operation.action == ReplayOperation::Action::kAllocate) bytes += operation.bytes;
  }
  return bytes;
}

TEST_F(SharedTraces, FourRoundsStayAtTheLowerBoundAndBelowNative) {
  const std::map<std::string, Native> native = native_figures();
  for (const fs::path& path : traces_in(shared_traces())) {
    const ReplayProgram program = load_replay_program(path.string());
    const std::vector<ReplayRound> rounds = four_rounds(program, {});
    // The smallest but one: 2 MiB are a quarter per cent of it, and all of 1.01 and eight granules is too little by two.
    const std::uint64_t more = program.name == "transformer_forward_bf16" ? 10 * 2 * kMiB : 8 * 2 * kMiB;
    EXPECT_LE(peak_of(rounds), bar(program, 1010, more)) << program.name;
    EXPECT_LE(peak_of(rounds), native.at(program.name).recorded_peak_bytes) << program.name;
    EXPECT_LE(rounds[3].wait_count, 4u) << program.name;
  }
}

TEST_F(SharedTraces, TheFourthRoundAsksTheSourceForNothing) {
  for (const fs::path& path : traces_in(shared_traces())) {
    const ReplayProgram program = load_replay_program(path.string());
    const std::vector<ReplayRound> rounds = four_rounds(program, {});
    // Two still remap now and then at the edge of their slack: docs/dead-ends.md, "Remap".
    const bool settles = program.name != "transformer_forward_bf16" && program.name != "transformer_train_ctx128";
    EXPECT_LE(rounds[3].source_calls.total(), settles ? 0 : program.operations.size() / 250) << program.name;
  }
}

TEST_F(SharedTraces, UnderALimitAtTheLowerBoundFewOperationsAskTheSource) {
  for (const fs::path& path : traces_in(shared_traces())) {
    const ReplayProgram program = load_replay_program(path.string());
    Options options;
    options.limit = Amount{round_up(bar(program, 1010, 10 * 2 * kMiB), 2 * kMiB)};
    const std::vector<ReplayRound> rounds = four_rounds(program, {}, options);
    EXPECT_EQ(rounds[3].failure_count, 0u) << program.name;
    EXPECT_LE(rounds[3].source_calls.total(), program.operations.size() / 100) << program.name;
  }
}

TEST_F(SharedTraces, WholeSegmentsStayBelowNativeInMemoryAndCalls) {
  const std::map<std::string, Native> native = native_figures();
  for (const fs::path& path : traces_in(shared_traces())) {
    const ReplayProgram program = load_replay_program(path.string());
    SimulatedOptions memory;
    memory.whole_only = memory.shared_segments = true;
    const std::vector<ReplayRound> rounds = four_rounds(program, memory);
    const Native& peer = native.at(program.name);
    EXPECT_LE(peak_of(rounds), bar(program, 1080, 0)) << program.name;
    if (program.name != "transformer_forward_b") {  // 1.040 x the lower bound, where native's device was nearly full
      EXPECT_LE(peak_of(rounds), peer.recorded_peak_bytes) << program.name;
    }
    // A segment is one call of malloc or free; our source counts two.
    EXPECT_LE(rounds[0].source_calls.total() / 2, peer.calls) << program.name;
  }
}

TEST_F(SharedTraces, LargeGranulesCostTwoPerCentWhereTenGibibytesAreLive) {
  for (const fs::path& path : traces_in(shared_traces())) {
    const ReplayProgram program = load_replay_program(path.string());
    if (program.lower_bound_bytes < 10 * kGiB) continue;
    SimulatedOptions memory;
    memory.granule_bytes = 8 * kMiB;
    EXPECT_LE(peak_of(four_rounds(program, memory)), bar(program, 1020, 0)) << program.name;
  }
}

/// Where exact best fit with coalescing, in one range that grows at its end, puts the end.
std::uint64_t best_fit_end(const ReplayProgram& program) {
  std::map<std::uint64_t, std::uint64_t> free;  // by address, up to the end of the range
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks(program.block_count);
  std::uint64_t end = 0;
  for (const ReplayOperation& operation : program.operations) {
    auto& [address, bytes] = blocks[operation.block];
    if (operation.action == ReplayOperation::Action::kAllocate) {
      bytes = operation.bytes;
      auto best = free.end();
      for (auto it = free.begin(); it != free.end(); ++it) {
        if (it->second >= bytes && (best == free.end() || it->second < best->second)) best = it;
      }
      if (best == free.end() && !free.empty() && std::prev(best)->first + std::prev(best)->second == end) --best;
      address = best == free.end() ? end : best->first;
      const std::uint64_t found = best == free.end() ? 0 : best->second;
      if (best != free.end()) free.erase(best);
      if (found > bytes) free[address + bytes] = found - bytes;
      end = std::max(end, address + bytes);
    } else if (operation.action == ReplayOperation::Action::kFree) {
      const auto it = free.emplace(address, bytes).first;
      const auto next = std::next(it);
      if (next != free.end() && it->first + it->second == next->first) {
        it->second += next->second;
        free.erase(next);
      }
      if (it != free.begin() && std::prev(it)->first + std::prev(it)->second == it->first) {
        std::prev(it)->second += it->second;
        free.erase(it);
      }
    }
  }
  return end;
}

TEST(Workloads, LargeTensorsStayAtTheLowerBoundAndMoveLittleWhereOneRangeNeedsFarMore) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const ReplayProgram program = workloads::generate("large_tensors", seed);
    EXPECT_GE(best_fit_end(program), bar(program, 1400, 0)) << "else it shows nothing";
    const std::vector<ReplayRound> rounds = four_rounds(program, {});
    EXPECT_LE(peak_of(rounds), bar(program, 1020, 0)) << "seed " << seed;
    for (const ReplayRound& round : rounds) {
      EXPECT_LE(round.source_calls.remapped_bytes, requested_bytes(program) / 50) << "seed " << seed;
      EXPECT_LE(round.wait_count, 1u);
    }
  }
}

TEST(Workloads, MemoryCrossesTheStreamsOfAServerWithoutTheSource) {
  const ReplayProgram program = workloads::generate("serving_streams");
  const std::vector<ReplayRound> rounds = four_rounds(program, {});
  // PyTorch's allocator reserves 162,327,953,408 bytes here, and 67,134,029,824 with expandable segments.
  EXPECT_LE(peak_of(rounds), 10'000'000'000u);
  EXPECT_EQ(rounds[3].source_calls.total(), 0u);
  EXPECT_EQ(rounds[3].wait_count, 0u);
}

TEST(Workloads, WhatCrossesTheStreamsOfAServerIsNeverInUseThere) {
  const ReplayProgram program = workloads::generate("serving_streams");
  support::WorldOptions options;
  options.source.capacity_bytes = 140 * kGiB;
  support::World world(options);  // ends in the validator's verdict: no byte granted while a stream may still touch it
  std::vector<Address> addresses(program.block_count);
  for (const ReplayOperation& operation : program.operations) {
    const StreamId stream{operation.stream};
    Address& address = addresses[operation.block];
    switch (operation.action) {
      case ReplayOperation::Action::kAllocate:
        address = world.allocate(operation.bytes, stream);
        world.queue(stream);
        break;
      case ReplayOperation::Action::kFree:
        world.free(address);
        break;
      case ReplayOperation::Action::kUse:
        world->record_stream(address, stream);
        world.queue(stream);
        break;
      case ReplayOperation::Action::kSync:
        world.complete(stream);
        break;
    }
  }
  EXPECT_GT(world.fences.wait_count(), 0u) << "else memory crossed no stream that was behind";
  EXPECT_LE(world->stats().reserved.peak, 10'000'000'000u);
}

TEST_F(SharedTraces, EveryBlockIsWhereItWas) {
  expect_golden_placements(shared_traces());
}

}  // namespace
}  // namespace cistern
