#include "models/keras_adam.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "models/vector_kernels.hpp"

namespace cistern::models {

KerasAdam::KerasAdam(std::vector<at::Tensor> parameters, double learning_rate)
    : parameters_(std::move(parameters)), learning_rate_(learning_rate) {
  for (const at::Tensor& parameter : parameters_) {
    first_.push_back(at::zeros_like(parameter));
    second_.push_back(at::zeros_like(parameter));
  }
}

double KerasAdam::next_step_size() {
  const auto t = static_cast<double>(++step_count_);
  return learning_rate_ * std::sqrt(1.0 - std::pow(kBeta2, t)) / (1.0 - std::pow(kBeta1, t));
}

void KerasAdam::step() {
  const double step_size = next_step_size();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    first_[i].lerp_(gradient, 1.0 - kBeta1);
    second_[i].lerp_(gradient.square(), 1.0 - kBeta2);
    parameters_[i].addcdiv_(first_[i], second_[i].sqrt().add_(kEpsilon), -step_size);
  }
}

void KerasAdam::fused_step(const std::vector<at::Tensor>& gradients) {
  const AdamRates rates{static_cast<float>(next_step_size()), 1.0 - kBeta1, 1.0 - kBeta2, kEpsilon};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const AdamSpans spans{parameters_[i].mutable_data_ptr<float>(), gradients[i].const_data_ptr<float>(),
                          first_[i].mutable_data_ptr<float>(), second_[i].mutable_data_ptr<float>()};
    adam_step(spans, parameters_[i].numel(), rates);
  }
}

}  // namespace cistern::models
