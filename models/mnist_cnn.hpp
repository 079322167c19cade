// The small MNIST network of the Keras examples, for LibTorch's autograd.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace cistern::models {

inline constexpr std::int64_t kMnistSide = 28;
inline constexpr std::int64_t kMnistClasses = 10;
inline constexpr std::int64_t kMnistFilters = 32;
inline constexpr std::int64_t kMnistPooledSide = 13;  // 28 - 2 (valid convolution), halved
inline constexpr std::int64_t kMnistFeatures = kMnistFilters * kMnistPooledSide * kMnistPooledSide;
inline constexpr std::int64_t kMnistParameters = 54'410;

/// Conv 1->32 3x3 valid, relu, max-pool 2, flatten, linear 10.
class MnistCnnImpl : public torch::nn::Module {
 public:
  /// Initialises as Keras does: Glorot uniform from `generator`, biases zero.
  explicit MnistCnnImpl(const at::Generator& generator);

  /// Shapes: images [n, 1, 28, 28] in 0..1 -> logits [n, 10].
  at::Tensor forward(const at::Tensor& images);

  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear dense{nullptr};
};
TORCH_MODULE(MnistCnn);

}  // namespace cistern::models
