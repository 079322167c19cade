// cistern-train: trains a network through cistern and says what memory it took.
#include <iostream>

#include "apps/common/cli.hpp"
#include "apps/train/compare.hpp"
#include "apps/train/console.hpp"
#include "apps/train/evaluate.hpp"
#include "apps/train/options.hpp"
#include "apps/train/results.hpp"
#include "apps/train/trainer.hpp"

namespace {

using namespace cistern::train;

int compare(const TrainOptions& options) {
  const Comparison comparison = compare_strategies(options);
  if (comparison.exit_code != 0) return comparison.exit_code;
  if (options.json) {
    std::cout << json_text(comparison.runs) << '\n';
  } else {
    print_comparison(std::cout, comparison.runs);
  }
  return same_weights(comparison.runs) ? 0 : cistern::apps::kExitFailure;
}

int train(const TrainOptions& options) {
  const RunResult run = run_training(options);
  if (options.json) {
    std::cout << json_text({run}) << '\n';
  } else {
    print_report(std::cout, run);
  }
  return 0;
}

int evaluate(const TrainOptions& options) {
  const Evaluation evaluation = run_evaluation(options);
  if (options.json) {
    std::cout << json_text(evaluation) << '\n';
  } else {
    print_evaluation(std::cout, evaluation);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains the MNIST network of the Keras example, or MobileNetV2, through cistern's allocator.",
               "cistern-train");
  TrainOptions options;
  add_options(app, options);
  return cistern::apps::run_program(app, argc, argv, [&] {
    check_options(options);
    if (!options.evaluate.empty()) return evaluate(options);
    return options.compare.empty() ? train(options) : compare(options);
  });
}
