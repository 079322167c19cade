// Random programs against every promise. The same seeds on every run; CISTERN_TEST_SEED adds programs of its
// own, and CISTERN_TEST_STEPS says how many steps to take in all. A failing program is shrunk and printed:
// paste it into a file under tests/property/programs/ and it is run for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/program_generator.hpp"
#include "support/program_runner.hpp"
#include "support/program_shrinker.hpp"

namespace cistern::support {
namespace {

// GCC says so by macro, clang by __has_feature; under either, and under audit, a step costs ten times as
// much.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CISTERN_AUDIT)
constexpr std::uint64_t kDefaultSteps = 150'000;
#else
constexpr std::uint64_t kDefaultSteps = 1'500'000;
#endif
constexpr std::size_t kStepsPerProgram = 2000;

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr std::initializer_list<std::uint64_t Step::*> kOperands = {&Step::a, &Step::b, &Step::c, &Step::d};

std::string shrunk(const Program& program) {
  const Program least = shrink(
      program, [](const Program& p) { return run_isolated(p, 10).violation.has_value(); }, kOperands);
  return to_text(least) +
         "which breaks: " + run_isolated(least, 10).violation.value_or("nothing, when run again");
}

TEST(AllocatorProperty, RandomProgramsBreakNoPromise) {
  const std::uint64_t first_seed = number_from_environment("CISTERN_TEST_SEED", 1);
  const std::uint64_t steps = number_from_environment("CISTERN_TEST_STEPS", kDefaultSteps);
  Outcome total;
  for (std::uint64_t seed = first_seed; total.step_count < steps; ++seed) {
    const Program program = generate_program(seed, kStepsPerProgram);
    const Outcome outcome = run_isolated(program);
    ASSERT_FALSE(outcome.violation) << "seed " << seed << ": " << *outcome.violation << "\nshrunk to:\n"
                                    << shrunk(program);
    total.step_count += outcome.step_count;
    total.event_count += outcome.event_count;
    total.wait_count += outcome.wait_count;
    total.source_calls.decommit += outcome.source_calls.decommit;
    total.source_calls.remapped_bytes += outcome.source_calls.remapped_bytes;
    for (std::size_t rung = 0; rung < kRungCount; ++rung) total.served[rung] += outcome.served[rung];
  }
  // A generator that never gets somewhere proves nothing about it.
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    EXPECT_GT(total.served[rung], steps / 20'000) << rung_name(static_cast<Rung>(rung));
  }
  EXPECT_GT(total.wait_count, steps / 20'000);
  EXPECT_GT(total.source_calls.decommit, steps / 2000);
  EXPECT_GT(total.source_calls.remapped_bytes, steps);
  RecordProperty("steps", std::to_string(total.step_count));
  RecordProperty("events", std::to_string(total.event_count));
}

TEST(AllocatorProperty, ProgramsThatOnceFailedBreakNoPromise) {
  const std::filesystem::path folder = std::filesystem::path(CISTERN_SOURCE_DIR) / "tests/property/programs";
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    const auto program = parse_program(text.str());
    ASSERT_TRUE(program) << entry.path() << ": " << program.error();
    const Outcome outcome = run_isolated(*program);
    EXPECT_FALSE(outcome.violation) << entry.path() << ": " << *outcome.violation;
    ++count;
  }
  EXPECT_GT(count, 0u) << "looked in " << folder;
}

TEST(Program, SurvivesBeingWrittenAndRead) {
  const Program program = generate_program(42, 500);
  const std::string text = to_text(program);
  const auto read = parse_program("# a comment\n\n" + text);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(to_text(*read), text);
}

TEST(Program, SaysWhichLineCannotBeRead) {
  EXPECT_EQ(parse_program("setup\nalocate 1 2 3 4\n").error(), "cannot read the line 'alocate 1 2 3 4'");
  EXPECT_FALSE(parse_program("setup colour=3\n"));
  EXPECT_FALSE(parse_program("free\n"));
}

TEST(Program, ShrinksToWhatMatters) {
  Program program = generate_program(7, 1000);
  program.steps.push_back({Op::kTrim, 12345});
  const auto fails = [](const Program& candidate) {
    const auto& steps = candidate.steps;
    return std::any_of(steps.begin(), steps.end(),
                       [](const Step& step) { return step.op == Op::kTrim && step.a > 1000; });
  };
  const Program least = shrink(program, fails, kOperands);
  ASSERT_EQ(least.steps.size(), 1u);
  EXPECT_LE(least.steps[0].a, 2002u);
}

}  // namespace
}  // namespace cistern::support
