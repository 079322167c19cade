#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>

#include "errors.hpp"
#include "replay_command.hpp"

namespace {

int complain(const char* what, int exit_code) {
  std::cerr << "cistern: " << what << '\n';
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cistern::cli;
  try {
    CLI::App app{"cistern: works on recorded traces of an allocator, without torch or a device"};
    app.require_subcommand(1);
    ReplayArguments replay;
    add_replay_command(app, replay);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app.exit(error);  // --help
      throw UsageError(error.what() + std::string(" (cistern --help tells more)"));
    }
    run_replay(replay, std::cout);
    if (!std::cout.flush()) throw DataError("cannot write to the standard output");
    return kSuccess;
  } catch (const UsageError& error) {
    return complain(error.what(), kUsageExitCode);
  } catch (const std::exception& error) {
    return complain(error.what(), kDataExitCode);
  }
}
