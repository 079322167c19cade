#include "apps/train/results.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace cistern::train {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, std::uint64_t MemoryResult::*> kCounts[] = {
    {"requested_bytes", &MemoryResult::requested_bytes},
    {"peak_requested_bytes", &MemoryResult::peak_requested_bytes},
    {"allocated_bytes", &MemoryResult::allocated_bytes},
    {"peak_allocated_bytes", &MemoryResult::peak_allocated_bytes},
    {"reserved_bytes", &MemoryResult::reserved_bytes},
    {"peak_reserved_bytes", &MemoryResult::peak_reserved_bytes},
    {"allocations", &MemoryResult::allocations},
    {"source_calls", &MemoryResult::source_calls},
    {"source_calls_after_first_epoch", &MemoryResult::source_calls_after_first_epoch},
};
constexpr const char* kName = "name";
constexpr const char* kLimit = "limit_bytes";
constexpr const char* kMemories = "memories";
constexpr const char* kServed = "served_by_rung";
constexpr const char* kTimeShare = "allocator_time_share";

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

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

template <class Value>
std::optional<Value> from_json(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<Value>();
}

json figures_to_json(const MemoryResult& memory) {
  json object{{kName, memory.name}, {kLimit, or_null(memory.limit_bytes)}};
  for (const auto& [name, count] : kCounts) object[name] = memory.*count;
  return object;
}

MemoryResult figures_from_json(const json& object) {
  MemoryResult memory;
  object.at(kName).get_to(memory.name);
  memory.limit_bytes = from_json<std::uint64_t>(object.at(kLimit));
  for (const auto& [name, count] : kCounts) object.at(name).get_to(memory.*count);
  return memory;
}

// The figures of the device trained on, and all memories side by side.
json memory_to_json(const RunResult& run) {
  json memory{
      {"peak_rss_bytes", run.peak_rss_bytes}, {kPageFaults, json::array()}, {kMemories, json::array()}};
  for (const EpochResult& epoch : run.epochs) memory[kPageFaults].push_back(epoch.page_faults);
  for (const auto& [name, count] : kCounts) {
    memory[name] = run.memories.empty() ? json() : json(run.memories.front().*count);
  }
  memory[kServed] = or_null(run.served_by_rung);
  memory[kTimeShare] = or_null(run.time_share);
  for (const MemoryResult& one : run.memories) memory[kMemories].push_back(figures_to_json(one));
  return memory;
}

json to_json(const RunResult& run) {
  json object{{"strategy", run.strategy},
              {"device", run.device},
              {"loop", run.loop},
              {"batch_size", run.batch_size},
              {"seed", run.seed},
              {"threads", run.threads},
              {"val_accuracy", run.validation_accuracy},
              {"val_loss", run.validation_loss},
              {"weights_sha256", run.weights_sha256},
              {"memory", memory_to_json(run)}};
  for (const auto& [name, field] : kSeries) {
    object[name] = json::array();
    for (const EpochResult& epoch : run.epochs) object[name].push_back(epoch.*field);
  }
  return object;
}

RunResult run_from_json(const json& object) {
  RunResult run;
  object.at("strategy").get_to(run.strategy);
  object.at("device").get_to(run.device);
  object.at("loop").get_to(run.loop);
  object.at("batch_size").get_to(run.batch_size);
  object.at("seed").get_to(run.seed);
  object.at("threads").get_to(run.threads);
  object.at("val_accuracy").get_to(run.validation_accuracy);
  object.at("val_loss").get_to(run.validation_loss);
  object.at("weights_sha256").get_to(run.weights_sha256);
  const json& memory = object.at("memory");
  memory.at("peak_rss_bytes").get_to(run.peak_rss_bytes);
  run.epochs.resize(memory.at(kPageFaults).size());
  for (std::size_t i = 0; i < run.epochs.size(); ++i) {
    for (const auto& [name, field] : kSeries) object.at(name).at(i).get_to(run.epochs[i].*field);
    memory.at(kPageFaults).at(i).get_to(run.epochs[i].page_faults);
  }
  for (const json& one : memory.at(kMemories)) run.memories.push_back(figures_from_json(one));
  run.served_by_rung = from_json<std::map<std::string, std::uint64_t>>(memory.at(kServed));
  run.time_share = from_json<double>(memory.at(kTimeShare));
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
