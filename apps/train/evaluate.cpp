#include "apps/train/evaluate.hpp"

#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "apps/common/memory_setup.hpp"
#include "apps/common/stopwatch.hpp"
#include "apps/common/text.hpp"
#include "apps/common/torch_errors.hpp"
#include "apps/train/start.hpp"
#include "cistern/base/units.hpp"

namespace cistern::train {

Evaluation run_evaluation(const TrainOptions& options) {
  const apps::ChosenDevice device = apps::choose_device(options.memory.device);
  apps::MemorySetup memory(device, apps::allocator_options(options.memory, apps::computed_on(device)));
  return apps::with_short_errors([&] {
    if (options.threads) at::set_num_threads(*options.threads);
    const models::Weights weights = models::read_weights(options.evaluate);
    const auto learner = prepare_evaluation(weights, options, device);
    const apps::Stopwatch watch;
    const models::BatchSums sums = learner->evaluate();
    const double seconds = watch.seconds();
    return Evaluation{options.evaluate, weights.card.model, options.dataset, sums.count,
                      sums.accuracy(),  sums.mean_loss(),   seconds,         memory.report(seconds)};
  });
}

void print_evaluation(std::ostream& out, const Evaluation& evaluation) {
  out << evaluation.weights << " (" << evaluation.model << ") on " << evaluation.dataset << ": "
      << apps::text("accuracy %.4f, loss %.4f on %lld test images, %.2f s, %.0f images/s\n",
                    evaluation.accuracy, evaluation.loss, static_cast<long long>(evaluation.images),
                    evaluation.seconds, static_cast<double>(evaluation.images) / evaluation.seconds);
  apps::print_memory(out, evaluation.memory, "epoch");
  out << "peak resident memory of the process: " << format_bytes(evaluation.memory.peak_rss_bytes)
      << std::endl;
}

std::string json_text(const Evaluation& evaluation) {
  const nlohmann::json object{
      {"weights", evaluation.weights},      {"model", evaluation.model},
      {"dataset", evaluation.dataset},      {"images", evaluation.images},
      {"accuracy", evaluation.accuracy},    {"loss", evaluation.loss},
      {"seconds", evaluation.seconds},      {"strategy", evaluation.memory.strategy},
      {"device", evaluation.memory.device}, {"memory", apps::memory_to_json(evaluation.memory, "epoch")}};
  return object.dump(1);
}

}  // namespace cistern::train
