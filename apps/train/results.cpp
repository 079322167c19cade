#include "apps/train/results.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace cistern::train {
namespace {

using nlohmann::json;

// One list for each field of the epochs, as a reader of a plot wants them.
constexpr std::pair<const char*, double EpochResult::*> kSeries[] = {
    {"epoch_seconds", &EpochResult::seconds},
    {"epoch_validation_seconds", &EpochResult::validation_seconds},
    {"epoch_loss", &EpochResult::loss},
    {"epoch_accuracy", &EpochResult::accuracy},
    {"epoch_val_loss", &EpochResult::validation_loss},
    {"epoch_val_accuracy", &EpochResult::validation_accuracy},
};
constexpr const char* kPageFaults = "epoch_page_faults";

constexpr const char* kPeriod = "epoch";

json memory_of(const RunResult& run) {
  json memory = apps::memory_to_json(run.memory, kPeriod);
  memory[kPageFaults] = json::array();
  for (const EpochResult& epoch : run.epochs) memory[kPageFaults].push_back(epoch.page_faults);
  return memory;
}

json to_json(const RunResult& run) {
  json object{{"strategy", run.memory.strategy},
              {"device", run.memory.device},
              {"model", run.model},
              {"loop", run.loop},
              {"batch_size", run.batch_size},
              {"seed", run.seed},
              {"threads", run.threads},
              {"val_accuracy", run.validation_accuracy},
              {"val_loss", run.validation_loss},
              {"weights_sha256", run.weights_sha256},
              {"memory", memory_of(run)}};
  for (const auto& [name, field] : kSeries) {
    object[name] = json::array();
    for (const EpochResult& epoch : run.epochs) object[name].push_back(epoch.*field);
  }
  return object;
}

RunResult run_from_json(const json& object) {
  RunResult run;
  object.at("model").get_to(run.model);
  object.at("loop").get_to(run.loop);
  object.at("batch_size").get_to(run.batch_size);
  object.at("seed").get_to(run.seed);
  object.at("threads").get_to(run.threads);
  object.at("val_accuracy").get_to(run.validation_accuracy);
  object.at("val_loss").get_to(run.validation_loss);
  object.at("weights_sha256").get_to(run.weights_sha256);
  const json& memory = object.at("memory");
  run.memory = apps::memory_from_json(memory, kPeriod);
  object.at("strategy").get_to(run.memory.strategy);
  object.at("device").get_to(run.memory.device);
  run.epochs.resize(memory.at(kPageFaults).size());
  for (std::size_t i = 0; i < run.epochs.size(); ++i) {
    for (const auto& [name, field] : kSeries) object.at(name).at(i).get_to(run.epochs[i].*field);
    memory.at(kPageFaults).at(i).get_to(run.epochs[i].page_faults);
  }
  return run;
}

}  // namespace

double RunResult::median_epoch_seconds() const {
  std::vector<double> seconds;
  for (const EpochResult& epoch : epochs) seconds.push_back(epoch.seconds);
  if (seconds.empty()) return 0.0;
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

bool same_weights(const std::vector<RunResult>& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const RunResult& run) { return run.weights_sha256 == runs.front().weights_sha256; });
}

std::string json_text(const std::vector<RunResult>& runs) {
  json list = json::array();
  for (const RunResult& run : runs) list.push_back(to_json(run));
  return json{{"runs", list}}.dump(1);
}

std::vector<RunResult> runs_from_json(const std::string& text) {
  std::vector<RunResult> runs;
  const json object = json::parse(text);
  for (const json& run : object.at("runs")) runs.push_back(run_from_json(run));
  return runs;
}

}  // namespace cistern::train
