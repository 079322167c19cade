// MobileNetV2 (Sandler et al. 2018) for LibTorch's autograd.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "models/mobilenet_v2_layers.hpp"

namespace cistern::models {

/// Names its parameters as torchvision does. Dropout and initial weights aside, it is the network of
/// TensorFlow's slim and Hub too, by MobileNetV2Options.
class MobileNetV2Impl : public torch::nn::Module {
 public:
  /// Initialises as torchvision does, from `generator`: convolutions normal by fan-out, classifier normal
  /// with deviation 0.01, biases zero. Dropout draws from torch's default generator.
  MobileNetV2Impl(const MobileNetV2Options& options, const at::Generator& generator);

  /// Shapes: images [n, channels, side, side], normalised as the weights want them -> logits [n, classes].
  at::Tensor forward(const at::Tensor& images);

  const MobileNetV2Options& options() const noexcept { return options_; }

 private:
  struct Step {
    ConvLayer layer;
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d batch_norm{nullptr};
  };

  void initialise(const at::Generator& generator);

  MobileNetV2Options options_;
  std::vector<Step> steps_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(MobileNetV2);

}  // namespace cistern::models
