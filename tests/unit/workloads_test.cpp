// What generators promise: valid programs, the same for the same seed, and CSV that loads as the same program.
#include "workloads/workloads.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "cistern/observe/csv_trace.hpp"
#include "support/temporary_folder.hpp"

namespace cistern::workloads {
namespace {

bool same(const ReplayProgram& a, const ReplayProgram& b) {
  const auto equal = [](const ReplayOperation& x, const ReplayOperation& y) {
    return x.bytes == y.bytes && x.stream == y.stream && x.block == y.block && x.pool == y.pool && x.action == y.action;
  };
  return a.block_count == b.block_count && a.lower_bound_bytes == b.lower_bound_bytes &&
         std::equal(a.operations.begin(), a.operations.end(), b.operations.begin(), b.operations.end(), equal);
}

class EachWorkload : public testing::TestWithParam<Workload> {};

TEST_P(EachWorkload, IsTheSameForASeedAndDiffersBetweenSeeds) {
  const ReplayProgram program = generate(GetParam().name, 7);
  EXPECT_EQ(program.name, GetParam().name);
  EXPECT_GT(program.lower_bound_bytes, 0u);
  EXPECT_TRUE(same(program, generate(GetParam().name, 7)));
  EXPECT_FALSE(same(program, generate(GetParam().name, 8)));
}

TEST_P(EachWorkload, IsReadFromItsFileAsItWasWritten) {
  const TemporaryFolder folder;
  const ReplayProgram program = generate(GetParam().name, 3);
  const std::string path = folder.path("workload.csv.gz");
  write_csv_program(program, "a comment", path);
  EXPECT_TRUE(same(program, load_csv_program(path)));
}

TEST_P(EachWorkload, NamesEveryBlockOnlyWhileItIsLive) {
  std::vector<char> live;
  for (const ReplayOperation& operation : generate(GetParam().name, 11).operations) {
    using Action = ReplayOperation::Action;
    if (operation.action == Action::kSync) continue;
    live.resize(std::max<std::size_t>(live.size(), operation.block + 1));
    ASSERT_EQ(live[operation.block] != 0, operation.action != Action::kAllocate);
    if (operation.action == Action::kAllocate) live[operation.block] = 1;
    if (operation.action == Action::kFree) live[operation.block] = 0;
  }
}

TEST_P(EachWorkload, TakesTheLeastOfEachParameter) {
  for (const Parameter& parameter : GetParam().parameters) {
    EXPECT_LE(parameter.least, parameter.value);
    EXPECT_LE(parameter.value, parameter.most);
    EXPECT_FALSE(generate(GetParam().name, 1, {{parameter.name, parameter.least}}).operations.empty()) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, EachWorkload, testing::ValuesIn(all_workloads()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Workloads, RefuseWhatTheyDoNotKnow) {
  EXPECT_THROW(generate("nothing_such"), std::invalid_argument);
  EXPECT_THROW(generate("large_tensors", 1, {{"no_such", 1}}), std::invalid_argument);
  EXPECT_THROW(generate("large_tensors", 1, {{"tensors", 0}}), std::invalid_argument);
}

}  // namespace
}  // namespace cistern::workloads
