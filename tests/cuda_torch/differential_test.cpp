// The same programs through torch's native allocator and through ours. The same seeds on every run;
// CISTERN_TEST_SEED says where to begin, CISTERN_TEST_STEPS how many steps to take in all. A program that
// breaks something is shrunk and printed: paste it into a file under tests/cuda_torch/corpus and it is run
// for ever, first of all.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_torch/differential_runner.hpp"
#include "support/program_shrinker.hpp"

namespace cistern::support {
namespace {

constexpr std::uint64_t kDefaultSteps = 110'000;
constexpr std::size_t kStepsPerProgram = 500;

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string shrunk(const DeviceProgram& program) {
  const DeviceProgram least = shrink(
      program, [](const DeviceProgram& p) { return !compare_with_native(p).violation.empty(); },
      {&DeviceStep::a, &DeviceStep::b}, 400);
  return to_text(least) + "which breaks: " + compare_with_native(least).violation;
}

struct Peak {
  std::uint64_t seed = 0;
  double of_native = 0.0;  ///< Ours as a share of native's.
};

/// What the programs of a shape came to.
struct Tally {
  std::uint64_t programs = 0;
  Comparison::Counts sum;
  std::vector<Peak> peaks;

  void add(std::uint64_t seed, const Comparison::Counts& counts) {
    ++programs;
    sum.steps += counts.steps;
    for (std::size_t i = 0; i < sum.done.size(); ++i) sum.done[i] += counts.done[i];
    sum.both_served += counts.both_served;
    sum.neither_served += counts.neither_served;
    sum.native_only += counts.native_only;
    sum.ours_only += counts.ours_only;
    sum.fractions_refused += counts.fractions_refused;
    if (counts.native_peak_bytes == 0) return;
    peaks.push_back(
        {seed, static_cast<double>(counts.our_peak_bytes) / static_cast<double>(counts.native_peak_bytes)});
  }
  double mean_peak() const {
    const double sum_of_peaks =
        std::accumulate(peaks.begin(), peaks.end(), 0.0,
                        [](double sum_so_far, const Peak& peak) { return sum_so_far + peak.of_native; });
    return peaks.empty() ? 0.0 : sum_of_peaks / static_cast<double>(peaks.size());
  }
  std::size_t peaks_up_to(double share) const {
    return static_cast<std::size_t>(
        std::count_if(peaks.begin(), peaks.end(), [&](const Peak& peak) { return peak.of_native <= share; }));
  }
  Peak worst() const {
    return *std::max_element(peaks.begin(), peaks.end(),
                             [](const Peak& a, const Peak& b) { return a.of_native < b.of_native; });
  }
};

void print(const char* name, const Tally& tally) {
  if (tally.peaks.empty()) return;
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  const auto percent = [&](double share) {
    return 100.0 * static_cast<double>(tally.peaks_up_to(share)) / static_cast<double>(tally.peaks.size());
  };
  std::printf(
      "%-11s %4llu programs, %6llu steps; requests served by both %6llu, neither %4llu, native %3llu, ours "
      "%4llu\n",
      name, number(tally.programs), number(tally.sum.steps), number(tally.sum.both_served),
      number(tally.sum.neither_served), number(tally.sum.native_only), number(tally.sum.ours_only));
  std::printf(
      "%-11s peak of native's: mean %.3f, worst %.3f (seed %llu); at most 1.00 x in %.1f %%, 1.05 x in %.1f "
      "%%\n",
      "", tally.mean_peak(), tally.worst().of_native, number(tally.worst().seed), percent(1.0),
      percent(1.05));
}

TEST(Differential, CorpusProgramsBreakNothing) {
  const std::filesystem::path folder = std::filesystem::path(CISTERN_SOURCE_DIR) / "tests/cuda_torch/corpus";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty()) << "looked in " << folder;
  for (const auto& path : files) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    const auto program = parse_device_program(text.str());
    ASSERT_TRUE(program) << path << ": " << program.error();
    const Comparison comparison = compare_with_native(*program);
    EXPECT_EQ(comparison.violation, "") << path;
    EXPECT_GT(comparison.counts.both_served, 0u) << path;
    std::printf("%-50s peak %.3f of native's\n", path.filename().c_str(),
                static_cast<double>(comparison.counts.our_peak_bytes) /
                    static_cast<double>(comparison.counts.native_peak_bytes));
  }
}

TEST(Differential, RandomProgramsBreakNothingAndReserveNoMoreThanNative) {
  const std::uint64_t first_seed = number_from_environment("CISTERN_TEST_SEED", 1);
  const std::uint64_t steps = number_from_environment("CISTERN_TEST_STEPS", kDefaultSteps);
  std::array<Tally, kShapeCount> by_shape;
  Tally by_granule;
  Tally by_segment;
  std::uint64_t taken = 0;
  for (std::uint64_t seed = first_seed; taken < steps; ++seed) {
    const DeviceProgram program = generate_device_program(seed, kStepsPerProgram);
    const Comparison comparison = compare_with_native(program);
    ASSERT_EQ(comparison.violation, "") << "seed " << seed << "\nshrunk to:\n" << shrunk(program);
    taken += comparison.counts.steps;
    (program.malloc != 0 ? by_segment : by_granule).add(seed, comparison.counts);
    by_shape[static_cast<std::size_t>(shape_of_seed(seed))].add(seed, comparison.counts);
  }
  for (std::size_t i = 0; i < kShapeCount; ++i) print(shape_name(static_cast<Shape>(i)), by_shape[i]);
  print("all, vmm", by_granule);
  print("all, malloc", by_segment);

  // A generator that never gets somewhere proves nothing about it.
  for (std::size_t op = 0; op < by_granule.sum.done.size(); ++op) {
    EXPECT_GT(by_granule.sum.done[op] + by_segment.sum.done[op], steps / 5000) << "operation " << op;
  }
  const std::uint64_t neither = by_granule.sum.neither_served + by_segment.sum.neither_served;
  EXPECT_GT(neither, steps / 5000) << "requests that had to fail";
  EXPECT_GT(neither + by_granule.sum.ours_only + by_segment.sum.ours_only, steps / 1000) << "requests that native refused";

  const double count = static_cast<double>(by_granule.peaks.size());
  EXPECT_GE(static_cast<double>(by_granule.peaks_up_to(1.0)), 0.95 * count);
  EXPECT_GE(static_cast<double>(by_granule.peaks_up_to(1.05)), 0.99 * count);
}

TEST(DeviceProgram, SurvivesBeingWrittenAndRead) {
  const DeviceProgram program = generate_device_program(8, 300);
  const std::string text = to_text(program);
  const auto read = parse_device_program("# a comment\n\n" + text);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(parse_device_program("setup\nalocate 1 2\n").error(), "cannot read the line 'alocate 1 2'");
}

}  // namespace
}  // namespace cistern::support
