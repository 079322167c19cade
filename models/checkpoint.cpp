#include "models/checkpoint.hpp"

#include <ATen/ATen.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "cistern/observe/files.hpp"
#include "models/model_card.hpp"
#include "models/tensor_file.hpp"

namespace cistern::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "cistern-train 2";
constexpr const char* kGenerator = "generator_state";

// Calls visit(prefix of the names in the file, the tensors) for the four parts of a LearnedState. The parameters'
// empty prefix fits everything, so it comes last.
template <class State, class Visit>
void visit_parts(State& state, const Visit& visit) {
  visit("adam.first.", state.first_moments);
  visit("adam.second.", state.second_moments);
  visit("statistics.", state.statistics);
  visit("", state.parameters);
}

json describe(const Checkpoint& checkpoint) {
  const TrainingSetup& setup = checkpoint.setup;
  return {{"loop", setup.loop},
          {"batch_size", setup.batch_size},
          {"learning_rate", setup.learning_rate},
          {"seed", setup.seed},
          {"threads", setup.threads},
          {"learning_rate_decay", setup.learning_rate_decay},
          {"augmentation", setup.augmentation},
          {"card", card_text(setup.card)},
          {"adam_steps", checkpoint.learned.adam_steps},
          {"epochs_done", checkpoint.epochs_done},
          {"batches_done", checkpoint.batches_done},
          {"loss_sum", checkpoint.sums.loss},
          {"correct", checkpoint.sums.correct},
          {"count", checkpoint.sums.count}};
}

void restore(const json& progress, Checkpoint& checkpoint) {
  TrainingSetup& setup = checkpoint.setup;
  progress.at("loop").get_to(setup.loop);
  progress.at("batch_size").get_to(setup.batch_size);
  progress.at("learning_rate").get_to(setup.learning_rate);
  progress.at("seed").get_to(setup.seed);
  progress.at("threads").get_to(setup.threads);
  progress.at("learning_rate_decay").get_to(setup.learning_rate_decay);
  progress.at("augmentation").get_to(setup.augmentation);
  setup.card = parse_card(progress.at("card").get<std::string>());
  progress.at("adam_steps").get_to(checkpoint.learned.adam_steps);
  progress.at("epochs_done").get_to(checkpoint.epochs_done);
  progress.at("batches_done").get_to(checkpoint.batches_done);
  progress.at("loss_sum").get_to(checkpoint.sums.loss);
  progress.at("correct").get_to(checkpoint.sums.correct);
  progress.at("count").get_to(checkpoint.sums.count);
}

const std::string& metadata_of(const TensorFile& content, const std::string& key) {
  static const std::string kNothing;
  const auto found = content.metadata.find(key);
  return found == content.metadata.end() ? kNothing : found->second;
}

}  // namespace

fs::path checkpoint_file(const fs::path& directory) {
  return directory / "checkpoint.safetensors";
}

bool prepare_checkpoint_directory(const fs::path& directory) {
  std::error_code error;
  const bool made = fs::create_directories(directory, error);
  if (error) throw FileError(directory.string(), "cannot be made for checkpoints: " + error.message());
  if (!fs::is_directory(directory)) throw FileError(directory.string(), "is not a directory");
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    throw FileError(directory.string(), std::string("cannot be written to: ") + std::strerror(errno));
  }
  return made;
}

void save_checkpoint(const fs::path& directory, const Checkpoint& checkpoint) {
  TensorFile content;
  content.metadata = {{"format", kFormat},
                      {"model", checkpoint.setup.card.model},
                      {"progress", describe(checkpoint).dump()}};
  content.tensors[kGenerator] = checkpoint.generator_state;
  visit_parts(checkpoint.learned, [&](const std::string& prefix, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) content.tensors[prefix + name] = tensor;
  });
  write_tensor_file(checkpoint_file(directory), content);
}

Checkpoint load_checkpoint(const fs::path& directory) {
  const fs::path file = checkpoint_file(directory);
  const auto fail = [&](const std::string& what) { throw FileError(file.string(), what); };
  TensorFile content = read_tensor_file(file);
  const std::string& format = metadata_of(content, "format");
  if (format != kFormat) {
    fail("is a checkpoint of '" + metadata_of(content, "model") + "' in the format '" + format +
         "'; this program reads '" + kFormat + "'");
  }
  Checkpoint checkpoint;
  try {
    restore(json::parse(metadata_of(content, "progress")), checkpoint);
  } catch (const json::exception&) {
    fail("does not say how far the training got");
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
  const auto generator = content.tensors.extract(kGenerator);
  if (generator.empty()) fail("lacks the state of the random generator");
  checkpoint.generator_state = generator.mapped();
  visit_parts(checkpoint.learned, [&](const std::string& prefix, NamedTensors& tensors) {
    for (auto next = content.tensors.begin(); next != content.tensors.end();) {
      const auto entry = next++;
      if (!entry->first.starts_with(prefix)) continue;
      tensors[entry->first.substr(prefix.size())] = entry->second;
      content.tensors.erase(entry);
    }
  });
  return checkpoint;
}

void check_tensors(const fs::path& directory, const LearnedState& loaded, const LearnedState& wanted) {
  const auto check = [&](const std::string& prefix, const NamedTensors& found, const NamedTensors& expected) {
    for (const auto& [name, tensor] : expected) {
      const auto entry = found.find(name);
      if (entry != found.end() && entry->second.sizes() == tensor.sizes()) continue;
      throw FileError(checkpoint_file(directory).string(),
                      "lacks " + prefix + name + ", or has it in another shape");
    }
  };
  check("", loaded.parameters, wanted.parameters);
  check("adam.first.", loaded.first_moments, wanted.first_moments);
  check("adam.second.", loaded.second_moments, wanted.second_moments);
  check("statistics.", loaded.statistics, wanted.statistics);
}

}  // namespace cistern::models
