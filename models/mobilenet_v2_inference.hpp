// MobileNetV2 for classification only: batch norm folded, weights packed once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "models/weights_file.hpp"

namespace cistern::models {

/// The same function as MobileNetV2 in eval(), up to rounding.
class MobileNetV2Inference {
 public:
  /// Requires a card of mobilenet_v2. `threads` includes the calling one. The weights are copied.
  MobileNetV2Inference(const Weights& weights, int threads);
  ~MobileNetV2Inference();
  MobileNetV2Inference(const MobileNetV2Inference&) = delete;
  MobileNetV2Inference& operator=(const MobileNetV2Inference&) = delete;

  /// Shapes: images [n, channels, height, width] float, normalised as the weights' card says -> logits [n,
  /// classes]. Fastest when fed channels_last. Threads: one caller at a time.
  at::Tensor logits(const at::Tensor& images);

 private:
  struct Network;
  std::unique_ptr<Network> network_;
};

}  // namespace cistern::models
