#include "models/mnist_cnn.hpp"

#include <cmath>

namespace cistern::models {
namespace {

// Keras counts the receptive field into both fans: a 3x3 convolution 1->32 has fan_in 9 and fan_out 288.
void glorot_uniform(at::Tensor& weight, std::int64_t fan_in, std::int64_t fan_out,
                    const at::Generator& generator) {
  const double bound = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
  weight.uniform_(-bound, bound, generator);
}

}  // namespace

MnistCnnImpl::MnistCnnImpl(const at::Generator& generator) {
  conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, kMnistFilters, 3)));
  dense = register_module("dense", torch::nn::Linear(kMnistFeatures, kMnistClasses));
  std::int64_t count = 0;
  for (const at::Tensor& parameter : parameters()) count += parameter.numel();
  TORCH_CHECK(count == kMnistParameters, "MnistCnn has ", count, " parameters, not ", kMnistParameters);

  const torch::NoGradGuard no_grad;
  glorot_uniform(conv->weight, 9, 9 * kMnistFilters, generator);
  glorot_uniform(dense->weight, kMnistFeatures, kMnistClasses, generator);
  conv->bias.zero_();
  dense->bias.zero_();
}

at::Tensor MnistCnnImpl::forward(const at::Tensor& images) {
  const at::Tensor features = torch::max_pool2d(torch::relu(conv->forward(images)), 2);
  return dense->forward(features.flatten(1));
}

}  // namespace cistern::models
