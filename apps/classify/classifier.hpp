// Pictures to probabilities, by whatever network the weights are of.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include <opencv2/core/mat.hpp>

#include "models/image_input.hpp"
#include "models/weights_file.hpp"

namespace cistern::classify {

class Classifier {
 public:
  /// Requires weights for pictures of one channel or three. On the CPU, MobileNetV2 takes its form for
  /// inference.
  Classifier(const models::Weights& weights, at::Device device, int threads, std::int64_t largest_batch);
  ~Classifier();
  Classifier(const Classifier&) = delete;
  Classifier& operator=(const Classifier&) = delete;

  /// Prepares a picture as the next of the batch. Requires fewer than largest_batch there.
  void add(const cv::Mat& picture, models::Resize how);

  /// Shapes: [added since the last call, classes] float on the CPU. Requires at least one.
  at::Tensor probabilities();

 private:
  struct Network;

  const models::Preprocessing input_;
  const models::PixelValues values_;
  std::unique_ptr<Network> network_;
  at::Tensor images_;  // [largest_batch, size, size, channels]: one block for good
  std::int64_t count_ = 0;
};

}  // namespace cistern::classify
