#include "models/checkpoint.hpp"

#include <ATen/ATen.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "cistern/observe/files.hpp"
#include "models/mnist_cnn.hpp"
#include "models/tensor_file.hpp"

namespace cistern::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModel = "MnistCnn";
constexpr const char* kFormat = "cistern-train 1";
constexpr const char* kGenerator = "generator_state";

struct ParameterShape {
  const char* name;
  std::vector<std::int64_t> sizes;
};

const std::array<ParameterShape, 4>& parameter_shapes() {
  static const std::array<ParameterShape, 4> shapes{{{"conv.weight", {kMnistFilters, 1, 3, 3}},
                                                     {"conv.bias", {kMnistFilters}},
                                                     {"dense.weight", {kMnistClasses, kMnistFeatures}},
                                                     {"dense.bias", {kMnistClasses}}}};
  return shapes;
}

// Calls visit(prefix of the name in the file, the list of tensors) for the three lists of a LearnedState.
template <class State, class Visit>
void visit_lists(State& state, const Visit& visit) {
  visit("", state.parameters);
  visit("adam.first.", state.first_moments);
  visit("adam.second.", state.second_moments);
}

json describe(const Checkpoint& checkpoint) {
  const TrainingSetup& setup = checkpoint.setup;
  return {{"loop", setup.loop},
          {"batch_size", setup.batch_size},
          {"learning_rate", setup.learning_rate},
          {"seed", setup.seed},
          {"threads", setup.threads},
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
  content.metadata = {{"format", kFormat}, {"model", kModel}, {"progress", describe(checkpoint).dump()}};
  content.tensors[kGenerator] = checkpoint.generator_state;
  visit_lists(checkpoint.learned, [&](const std::string& prefix, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      content.tensors[prefix + parameter_shapes()[i].name] = tensors[i];
  });
  write_tensor_file(checkpoint_file(directory), content);
}

Checkpoint load_checkpoint(const fs::path& directory) {
  const fs::path file = checkpoint_file(directory);
  const auto fail = [&](const std::string& what) { throw FileError(file.string(), what); };
  TensorFile content = read_tensor_file(file);
  const std::string& model = metadata_of(content, "model");
  if (model != kModel) fail("is a checkpoint of '" + model + "', not of " + kModel);
  const std::string& format = metadata_of(content, "format");
  if (format != kFormat) fail("has the format '" + format + "'; this program reads '" + kFormat + "'");

  Checkpoint checkpoint;
  try {
    restore(json::parse(metadata_of(content, "progress")), checkpoint);
  } catch (const json::exception&) {
    fail("does not say how far the training got");
  }
  checkpoint.generator_state = content.tensors[kGenerator];
  if (!checkpoint.generator_state.defined()) fail("lacks the state of the random generator");
  visit_lists(checkpoint.learned, [&](const std::string& prefix, std::vector<at::Tensor>& tensors) {
    for (const ParameterShape& shape : parameter_shapes()) {
      tensors.push_back(content.tensors[prefix + shape.name]);
      if (!tensors.back().defined() || tensors.back().sizes() != at::IntArrayRef(shape.sizes)) {
        fail("lacks " + prefix + shape.name + ", or has it in another shape");
      }
    }
  });
  return checkpoint;
}

}  // namespace cistern::models
