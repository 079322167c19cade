// The tuned form of MnistCnn: the same network and loss, its gradients written out, in buffers allocated
// once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "models/idx_dataset.hpp"
#include "models/worker_team.hpp"

namespace cistern::models {

/// Sums over images, so that parts of an epoch add up.
struct BatchSums {
  double loss = 0.0;
  std::int64_t correct = 0;
  std::int64_t count = 0;

  double mean_loss() const { return loss / static_cast<double>(count); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(count); }
  BatchSums& operator+=(const BatchSums& other) {
    loss += other.loss, correct += other.correct, count += other.count;
    return *this;
  }
};

/// All parameters, and all gradients, are one flat tensor each, so that an optimiser passes over memory once.
/// Inside, channels lie innermost; pack and unpack turn that into MnistCnn's order, exactly. Results do not
/// depend on where memory comes from; the convolution's do not depend on the number of threads either.
class FusedMnistCnn {
 public:
  FusedMnistCnn(std::int64_t largest_batch, int threads);

  /// Shapes: MnistCnn's {conv.weight, conv.bias, dense.weight, dense.bias} -> [54410], and back, contiguous.
  static at::Tensor pack(const std::vector<at::Tensor>& parameters);
  static std::vector<at::Tensor> unpack(const at::Tensor& flat);

  const at::Tensor& parameters() const noexcept { return parameters_; }
  const at::Tensor& gradients() const noexcept { return gradients_; }

  /// The gradients of the mean cross-entropy over data.images[rows], and the batch's sums.
  /// Requires at most largest_batch rows, all within the data. Cost: no allocation above a few hundred bytes.
  BatchSums forward_backward(const LabelledImages& data, std::span<const std::int64_t> rows);

  /// The sums of the whole split under the current parameters.
  BatchSums evaluate(const LabelledImages& data);

 private:
  enum class Pass { kForward, kBoth };
  BatchSums run(const LabelledImages& data, std::span<const std::int64_t> rows, Pass pass);
  BatchSums run_chunk(const LabelledImages& data, std::span<const std::int64_t> rows, std::int64_t chunk,
                      Pass pass);
  void sum_gradients(std::int64_t images);

  at::Tensor parameters_, gradients_;
  at::Tensor features_, winners_;  // [largest_batch, 5408]
  at::Tensor logit_gradients_;     // [largest_batch, 10]
  at::Tensor feature_gradients_;   // [chunks of images, 2, 5408]
  at::Tensor chunk_gradients_;     // [chunks of images, convolution's parameters]
  std::vector<BatchSums> chunk_sums_;
  WorkerTeam team_;
};

}  // namespace cistern::models
