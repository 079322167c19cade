// Adam as Keras defines it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cistern::models {

/// step = lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon): epsilon is added to the
/// *uncorrected* root
/// ("epsilon hat" of the paper), where torch::optim::Adam adds it after the bias correction.
class KerasAdam {
 public:
  static constexpr double kBeta1 = 0.9;
  static constexpr double kBeta2 = 0.999;
  static constexpr double kEpsilon = 1e-7;

  KerasAdam(std::vector<at::Tensor> parameters, double learning_rate);

  /// One step from each parameter's grad(), written in tensor operations. Requires no autograd recording.
  void step();
  /// The same step in one pass over memory, from `gradients` of equal shapes. Requires contiguous float CPU
  /// tensors.
  void fused_step(const std::vector<at::Tensor>& gradients);

  const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  const std::vector<at::Tensor>& first_moments() const noexcept { return first_; }
  const std::vector<at::Tensor>& second_moments() const noexcept { return second_; }
  std::int64_t step_count() const noexcept { return step_count_; }
  void set_step_count(std::int64_t count) noexcept { step_count_ = count; }
  void set_learning_rate(double rate) noexcept { learning_rate_ = rate; }

 private:
  double next_step_size();

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  double learning_rate_;
  std::int64_t step_count_ = 0;
};

}  // namespace cistern::models
