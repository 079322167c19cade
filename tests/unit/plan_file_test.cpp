// Plans and placement problems on disk, and plans made of recorded runs.
#include "cistern/observe/plan_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cistern/observe/make_plan.hpp"
#include "cistern/observe/placement_csv.hpp"
#include "support/temporary_folder.hpp"

namespace cistern {
namespace {

template <class Call>
std::string complaint(const std::string& path, Call&& call) {
  try {
    call(path);
  } catch (const FileError& error) {
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "no complaint";
}

class PlanOnDisk : public testing::Test {
 protected:
  std::string complaint_of(const std::string& text) {
    write_bytes(folder_.path("bad.json"), text);
    return complaint(folder_.path("bad.json"), [](const std::string& path) { read_plan(path); });
  }
  TemporaryFolder folder_;
};

const char* const kGood =
    R"({"cistern_plan":1,"lower_bound_bytes":700,"unit_bytes":512,"lanes":[{"stream":7,"pool":1,"height_bytes":2048,)"
    R"("repeat_from":1,"requests":[[700,0],[512,1024]]}]})"
    "\n";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  return text.replace(text.find(from), from.size(), to);
}

TEST_F(PlanOnDisk, ComesBackAsItWasWrittenPlainAndPacked) {
  PlanFile file;
  file.lower_bound_bytes = 700;
  file.plan.lanes.push_back({StreamId{7}, PoolId{1}, 2048, 1, {{700, 0}, {512, 1024}}});
  for (const char* name : {"a.json", "a.json.gz"}) {
    write_plan(folder_.path(name), file);
    const PlanFile read = read_plan(folder_.path(name));
    EXPECT_EQ(read.lower_bound_bytes, 700u);
    ASSERT_EQ(read.plan.lanes.size(), 1u);
    EXPECT_EQ(read.plan.lanes[0].stream, StreamId{7});
    EXPECT_EQ(read.plan.lanes[0].pool, PoolId{1});
    EXPECT_EQ(read.plan.lanes[0].height_bytes, 2048u);
    EXPECT_EQ(read.plan.lanes[0].repeat_from, 1u);
    ASSERT_EQ(read.plan.lanes[0].requests.size(), 2u);
    EXPECT_EQ(read.plan.lanes[0].requests[0].bytes, 700u);
    EXPECT_EQ(read.plan.lanes[0].requests[1].offset, 1024u);
  }
  EXPECT_EQ(read_bytes(folder_.path("a.json")), kGood);
}

TEST_F(PlanOnDisk, WhatIsNoPlanIsRefusedInOneLine) {
  EXPECT_EQ(complaint_of(""), "is no JSON from byte 1 on");
  EXPECT_EQ(complaint_of("{\"cistern_plan\":1,"), "is no JSON from byte 19 on");
  EXPECT_EQ(complaint_of("[]"), "is no plan: it has no \"cistern_plan\"");
  EXPECT_EQ(complaint_of("{\"cistern_plan\":2}"), "is a plan of version 2; this cistern reads version 1");
  EXPECT_EQ(complaint_of("{\"cistern_plan\":1}"), "the plan has no \"lower_bound_bytes\"");
  EXPECT_EQ(complaint_of(replaced("\"unit_bytes\":512", "\"unit_bytes\":512,\"more\":1")),
            "the plan has 1 unknown fields");
  EXPECT_EQ(complaint_of(replaced("\"pool\":1", "\"pool\":70000")),
            "lane 0: pool is 70000, not a whole number from 0 to 65535");
  EXPECT_EQ(complaint_of(replaced("[700,0]", "[-1,0]")),
            "lane 0: request 0: bytes is -1, not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(complaint_of(replaced("[700,0]", "[700]")), "lane 0: request 0 is no pair [bytes, offset]");
  EXPECT_EQ(complaint_of(replaced("1024]", "1025]")), "lane 0: request 1 lies at 1025, no multiple of 512");
}

TEST_F(PlanOnDisk, OptionsGetThePlanOfTheirFile) {
  write_bytes(folder_.path("a.json"), kGood);
  Options options;
  EXPECT_EQ(with_plan(options).plan, nullptr) << "another strategy";
  options.strategy = Strategy::kPlan;
  EXPECT_THROW(with_plan(options), std::invalid_argument);
  options.plan_file = folder_.path("a.json");
  EXPECT_EQ(with_plan(options).plan->lanes.size(), 1u);
  options.least_block_bytes = 1024;
  EXPECT_THROW(with_plan(options), FileError);
}

TEST(MakePlan, HasALaneAStreamAndReservesTheMostThatLivedInEach) {
  ReplayProgramBuilder builder;
  builder.allocate(1, kMiB, 0);
  builder.allocate(2, 3 * kMiB, 5);
  builder.free(1, kMiB, 0);
  builder.allocate(3, 2 * kMiB, 0);
  const PlanFile file = make_plan(builder.take("run"));
  EXPECT_EQ(file.lower_bound_bytes, 5 * kMiB);
  ASSERT_EQ(file.plan.lanes.size(), 2u);
  EXPECT_EQ(file.plan.lanes[0].height_bytes, 2 * kMiB);
  EXPECT_EQ(file.plan.lanes[1].stream, StreamId{5});
  EXPECT_EQ(file.plan.lanes[1].height_bytes, 3 * kMiB);
}

TEST(MakePlan, RepeatsTheTailOfAnIteratingJob) {
  ReplayProgramBuilder builder;
  std::uint64_t id = 0;
  for (int weight = 0; weight < 5; ++weight) builder.allocate(id++, 4096, 0);
  for (int step = 0; step < 3; ++step) {
    for (std::uint64_t layer = 1; layer <= 8; ++layer) builder.allocate(id++, 512 * layer, 0);
    for (std::uint64_t layer = 8; layer >= 1; --layer) builder.free(id - 9 + layer, 512 * layer, 0);
  }
  EXPECT_EQ(make_plan(builder.take("run")).plan.lanes[0].repeat_from, 5u + 2 * 8u);
}

TEST(MakePlan, ABlockThatAnotherStreamUsedKeepsItsPlaceUntilItIsReady) {
  const auto event = [](EventKind kind, std::uint64_t address, std::uint64_t stream = 0) {
    Event result;
    result.kind = kind;
    result.address = address;
    result.bytes = 4096;
    result.granted_bytes = 4096;
    result.stream = stream;
    return result;
  };
  Trace trace;
  trace.events = {event(EventKind::kAllocate, 4096), event(EventKind::kRecordStream, 4096, 9),
                  event(EventKind::kFree, 4096),     event(EventKind::kAllocate, 8192),
                  event(EventKind::kBlockReady, 4096), event(EventKind::kAllocate, 4096)};
  const PlanLane lane = make_plan(trace, "t").plan.lanes.at(0);
  ASSERT_EQ(lane.requests.size(), 3u);
  EXPECT_NE(lane.requests[0].offset, lane.requests[1].offset);
  EXPECT_EQ(lane.requests[0].offset, lane.requests[2].offset);
  trace.events.push_back(event(EventKind::kFree, 99));
  EXPECT_EQ(complaint("t", [&](const std::string& path) { make_plan(trace, path); }),
            "event 0: frees what is not live");
}

class PlacementCsv : public testing::Test {
 protected:
  std::string complaint_of(const std::string& text) {
    write_bytes(folder_.path("bad.csv"), text);
    return complaint(folder_.path("bad.csv"), [](const std::string& path) { load_placement_csv(path); });
  }
  TemporaryFolder folder_;
};

TEST_F(PlacementCsv, IsReadAndAnsweredWithOffsets) {
  const std::string path = folder_.path("a.csv");
  write_bytes(path, "# a comment\nid,lower,upper,size\nx,0,5,100\ny,3,9,50\n");
  EXPECT_TRUE(is_placement_csv(path));
  const PlacementProblem problem = load_placement_csv(path);
  ASSERT_EQ(problem.buffers.size(), 2u);
  EXPECT_EQ(problem.ids[1], "y");
  EXPECT_EQ(problem.buffers[1].lower, 3u);
  write_placement_csv(folder_.path("b.csv"), problem, {{0, 100}, 150});
  EXPECT_EQ(read_bytes(folder_.path("b.csv")), "id,lower,upper,size,offset\nx,0,5,100,0\ny,3,9,50,100\n");
}

TEST_F(PlacementCsv, IsToldFromATrace) {
  write_bytes(folder_.path("trace.csv"), "action,id,bytes,stream\nalloc,1,2,0\n");
  write_bytes(folder_.path("empty.csv"), "");
  EXPECT_FALSE(is_placement_csv(folder_.path("trace.csv")));
  EXPECT_FALSE(is_placement_csv(folder_.path("empty.csv")));
}

TEST_F(PlacementCsv, SaysWhichLineIsWrong) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_EQ(complaint_of("a,b\n"), "line 1: expected the header id,lower,upper,size, found \"a,b\"");
  EXPECT_EQ(complaint_of(header), "holds no buffer under id,lower,upper,size");
  EXPECT_EQ(complaint_of(header + "x,0,5\n"), "line 2: expected four fields id,lower,upper,size, found \"x,0,5\"");
  EXPECT_EQ(complaint_of(header + "x,0,5,9,1\n"),
            "line 2: expected four fields id,lower,upper,size, found \"x,0,5,9,1\"");
  EXPECT_EQ(complaint_of(header + ",0,5,9\n"), "line 2: the id is empty");
  EXPECT_EQ(complaint_of(header + "x,0,5,9\nx,0,5,9\n"), "line 3: the id \"x\" is there twice");
  EXPECT_EQ(complaint_of(header + "x,5,5,9\n"),
            "line 2: a life from 5 until before 5 is none: upper must be above lower");
  EXPECT_EQ(complaint_of(header + "x,0,5,0\n"), "line 2: a buffer of 0 bytes");
  EXPECT_EQ(complaint_of(header + "x,0,5,-1\n"), "line 2: size is \"-1\", not a whole number from 0 to 2^64-1");
  EXPECT_EQ(complaint_of(header + "x,0,5,1152921504606846976\ny,0,5,1\n"), "line 3: the sizes sum to more than 2^60");
}

}  // namespace
}  // namespace cistern
