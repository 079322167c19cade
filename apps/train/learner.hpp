// The seam between an epoch and the two ways to compute a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/checkpoint.hpp"
#include "models/fused_mnist_cnn.hpp"
#include "models/idx_dataset.hpp"

namespace cistern::train {

class Learner {
 public:
  Learner() = default;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;
  virtual ~Learner() = default;

  /// One optimiser step on data.images[rows]. Shapes: rows [batch] int64. Requires both on the learner's
  /// device.
  virtual void train_batch(const models::LabelledImages& data, const at::Tensor& rows) = 0;

  /// Sums over the batches since set_sums.
  virtual models::BatchSums sums() const = 0;
  virtual void set_sums(const models::BatchSums& sums) = 0;

  virtual models::BatchSums evaluate(const models::LabelledImages& data) = 0;
  /// On the CPU, wherever the learner is.
  virtual models::LearnedState state() const = 0;
};

/// The initial weights of a seed, moments zero.
models::LearnedState initial_state(const at::Generator& generator);

/// "plain": autograd and tensor operations, written as a tutorial would. The measure for the allocator, and
/// what the tuned loop's gradients are tested against.
std::unique_ptr<Learner> make_plain_learner(const models::LearnedState& start, double learning_rate,
                                            at::Device device);

/// "tuned": models/fused_mnist_cnn.hpp, on the CPU.
std::unique_ptr<Learner> make_tuned_learner(const models::LearnedState& start, double learning_rate,
                                            std::int64_t batch_size, int threads);

}  // namespace cistern::train
