// The nine traces under a plan: their lower bound, rounded up to the granule; and the offline placement of known
// problems. CISTERN_TEST_SEEDS says how many alterations of each trace to try.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cistern/observe/make_plan.hpp"
#include "cistern/observe/placement_csv.hpp"
#include "cistern/observe/replay.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "support/placement_check.hpp"
#include "support/random.hpp"

namespace cistern {
namespace {

namespace fs = std::filesystem;
using Action = ReplayOperation::Action;

fs::path shared(const std::string& folder) {
  const char* data = std::getenv("CISTERN_SHARED_DATA");
  return (data != nullptr ? fs::path(data) : fs::path(CISTERN_SOURCE_DIR) / "../shared/data") / folder;
}

std::vector<ReplayProgram> shared_programs() {
  std::vector<fs::path> paths;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(shared("traces"), absent)) {
    if (entry.path().extension() == ".gz") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ReplayProgram> programs;
  for (const fs::path& path : paths) programs.push_back(load_replay_program(path.string()));
  return programs;
}

Options planned(const ReplayProgram& program) {
  Options options;
  options.strategy = Strategy::kPlan;
  options.plan = std::make_shared<const Plan>(make_plan(program).plan);
  return options;
}

/// One allocation in twenty is dropped, gets 0.5 to 1.5 times its size, or has another put in before it, of a size that
/// the trace has, for up to 200 operations.
ReplayProgram altered(const ReplayProgram& program, std::uint64_t seed) {
  support::Random random(seed);
  std::vector<std::uint64_t> sizes;
  for (const ReplayOperation& operation : program.operations) {
    if (operation.action == Action::kAllocate) sizes.push_back(operation.bytes);
  }
  ReplayProgramBuilder builder;
  std::vector<std::uint64_t> bytes(program.block_count);  // 0: dropped
  struct PutIn {
    std::uint64_t id;
    std::uint64_t bytes;
  };
  std::multimap<std::size_t, PutIn> ends;
  std::uint64_t next_id = program.block_count;
  for (std::size_t at = 0; at < program.operations.size(); ++at) {
    for (; !ends.empty() && ends.begin()->first <= at; ends.erase(ends.begin())) {
      builder.free(ends.begin()->second.id, ends.begin()->second.bytes, 0);
    }
    const ReplayOperation& operation = program.operations[at];
    std::uint64_t& size = bytes[operation.block];
    if (operation.action == Action::kFree) {
      if (size != 0) builder.free(operation.block, size, operation.stream);
      continue;
    }
    size = operation.bytes;
    if (random.one_in(20)) {
      const std::uint64_t how = random.below(3);
      if (how == 0) size = 0;
      if (how == 1) size = std::max<std::uint64_t>(1, size / 2 + random.below(size));
      if (how == 2) {
        const PutIn put_in{next_id++, sizes[random.below(sizes.size())]};
        builder.allocate(put_in.id, put_in.bytes, 0);
        ends.emplace(at + 1 + random.below(200), put_in);
      }
    }
    if (size != 0) builder.allocate(operation.block, size, operation.stream);
  }
  return builder.take(program.name + ", altered");
}

class PlannedTraces : public testing::Test {
 protected:
  void SetUp() override {
    if (programs_.empty()) GTEST_SKIP() << "NOT TRIED: the nine shared traces are not at " << shared("traces");
    ASSERT_EQ(programs_.size(), 9u);
  }
  const std::vector<ReplayProgram> programs_ = shared_programs();
};

TEST_F(PlannedTraces, ReserveTheirLowerBoundRoundedToTheGranule) {
  for (const ReplayProgram& program : programs_) {
    const Options options = planned(program);
    for (const bool whole_only : {false, true}) {
      SimulatedSource source({.whole_only = whole_only});
      const ReplayResult result = replay(program, options, source);
      EXPECT_EQ(result.failure_count, 0u);
      EXPECT_EQ(result.peak_reserved_bytes, round_up(program.lower_bound_bytes, source.traits().granule_bytes))
          << program.name << (whole_only ? ", in segments" : "");
    }
  }
}

TEST_F(PlannedTraces, AskTheSourceForNothingInLaterRounds) {
  for (const ReplayProgram& program : programs_) {
    SimulatedSource source;
    const std::vector<ReplayRound> rounds = replay_rounds(program, planned(program), source);
    for (std::size_t round = 1; round < rounds.size(); ++round) {
      EXPECT_EQ(rounds[round].source_calls.total(), 0u) << program.name << ", round " << round;
      EXPECT_EQ(rounds[round].peak_reserved_bytes, rounds[0].peak_reserved_bytes) << program.name;
    }
  }
}

TEST_F(PlannedTraces, WithOneRequestInTwentyAlteredServeAllAndStayNearTheLowerBound) {
  const char* seeds = std::getenv("CISTERN_TEST_SEEDS");
  const std::uint64_t seed_count = seeds == nullptr ? 3 : std::strtoull(seeds, nullptr, 10);
  for (const ReplayProgram& program : programs_) {
    const Options options = planned(program);
    double worst = 0.0;
    for (std::uint64_t seed = 1; seed <= seed_count; ++seed) {
      SimulatedSource source;
      const ReplayResult result = replay(altered(program, seed), options, source);
      EXPECT_EQ(result.failure_count, 0u) << program.name << ", seed " << seed;
      EXPECT_LE(result.ratio, 1.05) << program.name << ", seed " << seed;
      worst = std::max(worst, result.ratio);
    }
    RecordProperty(program.name, std::to_string(worst));
  }
}

class PlacementProblems : public testing::Test {
 protected:
  static void expect_height(const std::string& name, const planning::PlaceOptions& options, double times_lower_bound) {
    const fs::path path = shared("planning") / (name + ".csv");
    if (!fs::exists(path)) GTEST_SKIP() << "NOT TRIED: " << path << " is not there";
    const PlacementProblem problem = load_placement_csv(path.string());
    const planning::Placement placement = planning::place(problem.buffers, options);
    EXPECT_EQ(support::broken_placement(problem.buffers, placement).value_or(""), "") << name;
    const std::uint64_t least = planning::lower_bound(problem.buffers);
    const auto most = options.capacity ? static_cast<double>(*options.capacity)
                                       : times_lower_bound * static_cast<double>(least);
    EXPECT_LE(static_cast<double>(placement.height), most) << name;
  }
};

TEST_F(PlacementProblems, RealProgramsReachTheirLowerBound) {
  expect_height("resnet50", {}, 1.0);
  expect_height("G_1", {}, 1.0);
}

TEST_F(PlacementProblems, AProgramOfEighteenThousandBuffersComesNear) {
  expect_height("pangu_2.6B", {.seconds = 5.0}, 1.0076);
}

TEST_F(PlacementProblems, TheHardOnesFitTheirCapacity) {
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"}) {
    expect_height(name, {.capacity = 1'048'576, .seconds = 600.0}, 0.0);
  }
}

}  // namespace
}  // namespace cistern
