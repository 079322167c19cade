// Loss and hits summed where they arise, so that nothing waits for a result in the middle of an epoch.
#pragma once

#include <torch/torch.h>

#include "models/fused_mnist_cnn.hpp"

namespace cistern::train {

class DeviceSums {
 public:
  DeviceSums(at::Device device, const models::BatchSums& sums)
      : loss_(torch::full({}, sums.loss, at::device(device).dtype(torch::kDouble))),
        correct_(torch::full({}, sums.correct, at::device(device).dtype(torch::kLong))),
        count_(sums.count) {}

  /// Shapes: logits [n, classes], labels [n] int64, mean_loss [].
  void add(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& mean_loss) {
    loss_ += mean_loss.detach() * labels.size(0);
    correct_ += (logits.argmax(1) == labels).sum();
    count_ += labels.size(0);
  }

  models::BatchSums values() const { return {loss_.item<double>(), correct_.item<std::int64_t>(), count_}; }

 private:
  at::Tensor loss_, correct_;
  std::int64_t count_;
};

}  // namespace cistern::train
