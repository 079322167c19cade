#include "models/mobilenet_v2_inference.hpp"

#include <ATen/ATen.h>

#include <vector>

namespace cistern::models {

struct MobileNetV2Inference::Network {
  struct Step {
    ConvLayer layer;
    at::Tensor weight, bias;
  };
  Padding padding;
  std::vector<Step> steps;
  at::Tensor classifier_weight, classifier_bias;
};

MobileNetV2Inference::MobileNetV2Inference(const Weights& weights, int /*threads*/)
    : network_(std::make_unique<Network>()) {
  const Weights flat = folded(weights);
  network_->padding = flat.card.network.padding;
  for (const ConvLayer& layer : mobilenet_v2_layers(flat.card.network)) {
    network_->steps.push_back(
        {layer, flat.tensors.at(layer.name + ".weight"), flat.tensors.at(layer.name + ".bias")});
  }
  network_->classifier_weight = flat.tensors.at("classifier.1.weight");
  network_->classifier_bias = flat.tensors.at("classifier.1.bias");
}

MobileNetV2Inference::~MobileNetV2Inference() = default;

at::Tensor MobileNetV2Inference::logits(const at::Tensor& images) {
  at::NoGradGuard no_grad;
  at::Tensor at = images.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor kept;
  for (const Network::Step& step : network_->steps) {
    const ConvLayer& layer = step.layer;
    if (layer.residual == ConvLayer::Residual::kOpens) kept = at;
    if (layer.kernel() == 3) {
      const SidePadding rows = side_padding(network_->padding, at.size(2), layer.stride);
      const SidePadding columns = side_padding(network_->padding, at.size(3), layer.stride);
      at = at::constant_pad_nd(at, {columns.before, columns.after, rows.before, rows.after});
    }
    at = at::conv2d(at, step.weight, step.bias, layer.stride, 0, 1, layer.groups());
    if (layer.relu6) at.clamp_(0.0, 6.0);
    if (layer.residual == ConvLayer::Residual::kCloses) at.add_(kept);
  }
  return at::linear(at.mean({2, 3}), network_->classifier_weight, network_->classifier_bias);
}

}  // namespace cistern::models
