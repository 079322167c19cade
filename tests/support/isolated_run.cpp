#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

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

void write_all(int file, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t written = ::write(file, at, bytes);
    if (written <= 0) return;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

std::string read_all(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

[[noreturn]] void run_child(const Program& program, int result_file, int text_file, unsigned timeout_s) {
  ::dup2(text_file, STDERR_FILENO);
  ::alarm(timeout_s);
  const Outcome outcome = run_program(program);
  const Report report{outcome.step_count, outcome.served, outcome.source_calls, outcome.event_count,
                      outcome.wait_count};
  write_all(result_file, &report, sizeof report);
  if (outcome.violation) write_all(text_file, outcome.violation->data(), outcome.violation->size());
  ::_exit(outcome.violation ? 1 : 0);
}

std::string end_of_child(int status, unsigned timeout_s) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return "did not end within " + std::to_string(timeout_s) + " s";
  if (WIFSIGNALED(status)) return std::string("ended by signal: ") + ::strsignal(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Outcome run_isolated(const Program& program, unsigned timeout_s) {
  // Files rather than pipes: the child may write more than a pipe holds before it ends.
  std::FILE* result_file = std::tmpfile();
  std::FILE* text_file = std::tmpfile();
  Outcome outcome;
  const pid_t child = result_file != nullptr && text_file != nullptr ? ::fork() : -1;
  if (child < 0) {
    outcome.violation = "cannot start a child process";
    return outcome;
  }
  if (child == 0) run_child(program, ::fileno(result_file), ::fileno(text_file), timeout_s);
  int status = 0;
  ::waitpid(child, &status, 0);

  ::lseek(::fileno(result_file), 0, SEEK_SET);
  ::lseek(::fileno(text_file), 0, SEEK_SET);
  const std::string result = read_all(::fileno(result_file));
  const std::string text = read_all(::fileno(text_file));
  std::fclose(result_file);
  std::fclose(text_file);

  Report report;
  if (result.size() == sizeof report) std::memcpy(&report, result.data(), sizeof report);
  outcome.step_count = report.step_count;
  outcome.served = report.served;
  outcome.source_calls = report.source_calls;
  outcome.event_count = report.event_count;
  outcome.wait_count = report.wait_count;
  if (status != 0) outcome.violation = (text.empty() ? "" : text + "\n  ") + end_of_child(status, timeout_s);
  return outcome;
}

}  // namespace cistern::support
