#include "apps/train/compare.hpp"

#include <iostream>

#include "apps/common/interrupt.hpp"
#include "apps/common/subprocess.hpp"

namespace cistern::train {

Comparison compare_strategies(const TrainOptions& options) {
  apps::watch_for_interrupts();  // Ctrl-C reaches the run itself; its exit code tells us.
  Comparison comparison;
  for (const std::string& strategy : options.compare) {
    std::cerr << "--- " << strategy << std::endl;
    const apps::SubprocessResult run =
        apps::run_subprocess(apps::own_executable(), arguments_for(options, strategy));
    if (run.exit_code != 0) {
      std::cerr << "cistern-train: the run under strategy " << strategy << " failed; nothing is compared\n";
      comparison.exit_code = run.exit_code;
      return comparison;
    }
    for (RunResult& result : runs_from_json(run.output)) comparison.runs.push_back(std::move(result));
  }
  return comparison;
}

}  // namespace cistern::train
