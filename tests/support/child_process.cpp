#include "support/child_process.hpp"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

namespace cistern::support {
namespace {

void write_all(int file, const std::string& text) {
  const char* at = text.data();
  std::size_t bytes = text.size();
  while (bytes != 0) {
    const ssize_t written = ::write(file, at, bytes);
    if (written <= 0) return;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

std::string read_all(int file) {
  ::lseek(file, 0, SEEK_SET);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

[[noreturn]] void run_child(const std::function<std::string()>& body, int output_file, int error_file,
                            unsigned timeout_s) {
  ::dup2(error_file, STDERR_FILENO);
  ::alarm(timeout_s);
  try {
    write_all(output_file, body());
  } catch (const std::exception& error) {
    write_all(error_file, std::string("threw ") + error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

std::string end_of_child(int status, unsigned timeout_s) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return "did not end within " + std::to_string(timeout_s) + " s";
  if (WIFSIGNALED(status)) return std::string("ended by signal: ") + ::strsignal(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

ChildEnd run_in_child(const std::function<std::string()>& body, unsigned timeout_s) {
  // Files rather than pipes: the child may write more than a pipe holds before it ends.
  std::FILE* output_file = std::tmpfile();
  std::FILE* error_file = std::tmpfile();
  const pid_t child = output_file != nullptr && error_file != nullptr ? ::fork() : -1;
  if (child < 0) return {"", "cannot start a child process"};
  if (child == 0) run_child(body, ::fileno(output_file), ::fileno(error_file), timeout_s);
  int status = 0;
  ::waitpid(child, &status, 0);

  ChildEnd end;
  end.output = read_all(::fileno(output_file));
  const std::string text = read_all(::fileno(error_file));
  std::fclose(output_file);
  std::fclose(error_file);
  if (status != 0) end.failure = (text.empty() ? "" : text + "\n  ") + end_of_child(status, timeout_s);
  return end;
}

}  // namespace cistern::support
