#include <exception>
#include <iostream>
#include <vector>

#include <CLI/CLI.hpp>

#include "errors.hpp"
#include "fit_command.hpp"
#include "generate_command.hpp"
#include "import_command.hpp"
#include "plan_command.hpp"
#include "replay_command.hpp"
#include "run_command.hpp"

namespace {

int complain(const char* what, int exit_code) {
  std::cerr << "cistern: " << what << '\n';
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cistern::cli;
  try {
    CLI::App app{"cistern: runs programs under the allocator, and works on the traces it recorded"};
    app.require_subcommand(1);
    ReplayArguments replay;
    add_replay_command(app, replay);
    GenerateArguments generate;
    const CLI::App* generate_app = add_generate_command(app, generate);
    FitArguments fit;
    const CLI::App* fit_app = add_fit_command(app, fit);
    ImportArguments import;
    const CLI::App* import_app = add_import_command(app, import);
    PlanArguments plan;
    const CLI::App* plan_app = add_plan_command(app, plan);
    RunArguments run;
    const CLI::App* run_app = add_run_command(app, run);
    const std::vector<char*> ours = take_command(argc, argv, run);
    try {
      app.parse(static_cast<int>(ours.size()), ours.data());
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app.exit(error);  // --help
      throw UsageError(error.what() + std::string(" (cistern --help tells more)"));
    }
    if (run_app->parsed()) return run_command(run);
    if (generate_app->parsed()) run_generate(generate, std::cout);
    else if (fit_app->parsed()) run_fit(fit, std::cout);
    else if (import_app->parsed()) run_import(import, std::cout);
    else if (plan_app->parsed()) run_plan(plan, std::cout);
    else run_replay(replay, std::cout);
    if (!std::cout.flush()) throw DataError("cannot write to the standard output");
    return kSuccess;
  } catch (const UsageError& error) {
    return complain(error.what(), kUsageExitCode);
  } catch (const std::exception& error) {
    return complain(error.what(), kDataExitCode);
  }
}
