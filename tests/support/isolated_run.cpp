#include <cstring>
#include <string>
#include <type_traits>

#include "support/child_process.hpp"
#include "support/program_runner.hpp"

namespace cistern::support {
namespace {

/// What the child sends ahead of the text; all numbers.
struct Report {
  std::uint64_t step_count = 0;
  std::array<std::uint64_t, kRungCount> served{};
  SourceCalls source_calls;
  std::uint64_t event_count = 0;
  std::uint64_t wait_count = 0;
};
static_assert(std::is_trivially_copyable_v<Report>);

std::string run_and_report(const Program& program) {
  const Outcome outcome = run_program(program);
  const Report report{outcome.step_count, outcome.served, outcome.source_calls, outcome.event_count,
                      outcome.wait_count};
  return std::string(reinterpret_cast<const char*>(&report), sizeof report) + outcome.violation.value_or("");
}

}  // namespace

Outcome run_isolated(const Program& program, unsigned timeout_s) {
  const ChildEnd end = run_in_child([&] { return run_and_report(program); }, timeout_s);
  Outcome outcome;
  Report report;
  if (end.output.size() >= sizeof report) {
    std::memcpy(&report, end.output.data(), sizeof report);
    if (end.output.size() > sizeof report) outcome.violation = end.output.substr(sizeof report);
  }
  outcome.step_count = report.step_count;
  outcome.served = report.served;
  outcome.source_calls = report.source_calls;
  outcome.event_count = report.event_count;
  outcome.wait_count = report.wait_count;
  if (!end.failure.empty()) outcome.violation = end.failure;
  return outcome;
}

}  // namespace cistern::support
