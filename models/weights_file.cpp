#include "models/weights_file.hpp"

#include <torch/torch.h>

#include <cmath>
#include <stdexcept>

#include "cistern/observe/files.hpp"
#include "models/mnist_cnn.hpp"
#include "models/model_card.hpp"
#include "models/tensor_file.hpp"

namespace cistern::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCard = "cistern";
constexpr const char* kStatistics[] = {".weight", ".bias", ".running_mean", ".running_var"};

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// One sentence about the first tensor that is wrong; empty if none is.
std::string complaint_of(const Weights& weights) {
  const auto expected = expected_tensors(weights.card);
  for (const auto& [name, shape] : expected) {
    const auto found = weights.tensors.find(name);
    if (found == weights.tensors.end()) return "lacks the tensor " + name;
    const at::Tensor& tensor = found->second;
    if (tensor.sizes() != at::IntArrayRef(shape)) {
      return "tensor " + name + " has the shape " + shape_text(tensor.sizes()) + ", not " + shape_text(shape);
    }
    if (tensor.scalar_type() != at::kFloat) return "tensor " + name + " is not of type F32";
    if (!at::isfinite(tensor).all().item<bool>())
      return "tensor " + name + " holds a value that is not a number";
  }
  for (const auto& [name, tensor] : weights.tensors) {
    if (!expected.contains(name))
      return "has a tensor " + name + ", which " + weights.card.model + " has no place for";
  }
  return "";
}

// Folded weights, with a batch norm that only adds the bias.
std::map<std::string, at::Tensor> unfolded_tensors(const Weights& weights) {
  std::map<std::string, at::Tensor> tensors = weights.tensors;
  for (const ConvLayer& layer : mobilenet_v2_layers(weights.card.network)) {
    const at::Tensor bias = tensors.extract(layer.name + ".bias").mapped();
    tensors[layer.batch_norm + ".bias"] = bias;
    tensors[layer.batch_norm + ".weight"] = at::ones_like(bias);
    tensors[layer.batch_norm + ".running_mean"] = at::zeros_like(bias);
    tensors[layer.batch_norm + ".running_var"] = at::full_like(bias, 1.0 - weights.card.network.epsilon);
  }
  return tensors;
}

template <class Visit>
void visit_tensors(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& item : module.named_parameters()) visit(item.key(), item.value());
  for (const auto& item : module.named_buffers()) {
    if (!item.key().ends_with("num_batches_tracked")) visit(item.key(), item.value());
  }
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> expected_tensors(const ModelCard& card) {
  if (card.model == kMnistCnnName) {
    return {{"conv.weight", {kMnistFilters, 1, 3, 3}},
            {"conv.bias", {kMnistFilters}},
            {"dense.weight", {kMnistClasses, kMnistFeatures}},
            {"dense.bias", {kMnistClasses}}};
  }
  std::map<std::string, std::vector<std::int64_t>> tensors;
  for (const ConvLayer& layer : mobilenet_v2_layers(card.network)) {
    tensors[layer.name + ".weight"] = {layer.outputs, layer.inputs / layer.groups(), layer.kernel(),
                                       layer.kernel()};
    if (card.batch_norm == BatchNorm::kFolded) {
      tensors[layer.name + ".bias"] = {layer.outputs};
    } else {
      for (const char* statistic : kStatistics) tensors[layer.batch_norm + statistic] = {layer.outputs};
    }
  }
  tensors["classifier.1.weight"] = {card.network.classes, mobilenet_v2_features(card.network)};
  tensors["classifier.1.bias"] = {card.network.classes};
  return tensors;
}

Weights read_weights(const fs::path& file) {
  TensorFile content = read_tensor_file(file);
  const auto card = content.metadata.find(kCard);
  if (card == content.metadata.end()) {
    throw FileError(file.string(),
                    "holds tensors but no card that says of which model: use tools/convert to make "
                    "weights for cistern of it");
  }
  Weights weights;
  try {
    weights.card = parse_card(card->second);
  } catch (const std::invalid_argument& error) {
    throw FileError(file.string(), error.what());
  }
  weights.tensors = std::move(content.tensors);
  if (const std::string complaint = complaint_of(weights); !complaint.empty()) {
    throw FileError(file.string(), complaint);
  }
  return weights;
}

void write_weights(const fs::path& file, const Weights& weights) {
  TensorFile content;
  for (const auto& [name, tensor] : weights.tensors) content.tensors[name] = tensor.contiguous();
  content.metadata[kCard] = card_text(weights.card);
  try {
    parse_card(content.metadata[kCard]);
  } catch (const std::invalid_argument& error) {
    throw FileError(file.string(), std::string("not written: ") + error.what());
  }
  if (const std::string complaint = complaint_of(weights); !complaint.empty()) {
    throw FileError(file.string(), "not written: the model " + complaint);
  }
  write_tensor_file(file, content);
}

void load_into(torch::nn::Module& module, const Weights& weights) {
  const torch::NoGradGuard no_grad;
  const bool unfold = weights.card.model == kMobileNetV2Name && weights.card.batch_norm == BatchNorm::kFolded;
  const auto tensors = unfold ? unfolded_tensors(weights) : weights.tensors;
  visit_tensors(module, [&](const std::string& name, at::Tensor to) {
    const auto from = tensors.find(name);
    if (from == tensors.end()) throw std::invalid_argument("the weights lack " + name);
    if (from->second.sizes() != to.sizes()) {
      throw std::invalid_argument("the weights have " + name + " in the shape " +
                                  shape_text(from->second.sizes()) + ", the module in " +
                                  shape_text(to.sizes()));
    }
    to.copy_(from->second);
  });
}

Weights weights_of(const torch::nn::Module& module, const ModelCard& card) {
  Weights weights{card, {}};
  weights.card.batch_norm = BatchNorm::kSeparate;
  visit_tensors(module, [&](const std::string& name, const at::Tensor& tensor) {
    weights.tensors[name] = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
  });
  return weights;
}

Weights folded(const Weights& weights) {
  if (weights.card.batch_norm == BatchNorm::kFolded) return weights;
  Weights result = weights;
  result.card.batch_norm = BatchNorm::kFolded;
  for (const ConvLayer& layer : mobilenet_v2_layers(weights.card.network)) {
    const auto take = [&](const char* statistic) {
      return result.tensors.extract(layer.batch_norm + statistic).mapped().to(at::kDouble);
    };
    const at::Tensor scale = take(".weight") / (take(".running_var") + weights.card.network.epsilon).sqrt();
    const at::Tensor weight = result.tensors[layer.name + ".weight"].to(at::kDouble);
    result.tensors[layer.name + ".weight"] = (weight * scale.reshape({-1, 1, 1, 1})).to(at::kFloat);
    result.tensors[layer.name + ".bias"] = (take(".bias") - take(".running_mean") * scale).to(at::kFloat);
  }
  return result;
}

}  // namespace cistern::models
