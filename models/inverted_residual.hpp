// One block of MobileNetV2 for inference: expansion, depthwise convolution and projection in one go, a few
// rows at a time, so that the expanded image, six times the block's input, never leaves the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/mobilenet_v2_kernels.hpp"
#include "models/mobilenet_v2_layers.hpp"

namespace cistern::models {

/// Weights of a pointwise or full convolution, packed. Outputs are rounded up to multiples of eight with
/// zeros.
class PackedConvolution {
 public:
  PackedConvolution() = default;
  /// Shapes: weight [outputs, inputs, k, k], bias [outputs].
  PackedConvolution(const at::Tensor& weight, const at::Tensor& bias);
  PackedMatrix matrix() const noexcept;
  std::int64_t outputs() const noexcept { return bias_.numel(); }

 private:
  at::Tensor panels_, bias_;
};

/// An image [rows][columns][channels] in memory; the first block also takes other orders.
struct ImageView {
  const float* data = nullptr;
  std::int64_t rows = 0, columns = 0, channels = 0;
  std::int64_t row_stride = 0, column_stride = 0, channel_stride = 0;
};

struct LayerWeights {
  at::Tensor weight, bias;
};

/// Rows [first, end) of a block's output.
struct Band {
  std::int64_t first;
  std::int64_t end;
};

class InvertedResidual {
 public:
  /// `expand` is the first layer: pointwise or, in the first block, the stem; with expand, depthwise and
  /// project in the order of mobilenet_v2_layers, batch norm folded.
  struct Layers {
    ConvLayer expand, depthwise, project;
    LayerWeights expand_weights, depthwise_weights, project_weights;
  };
  InvertedResidual(const Layers& layers, Padding padding);

  /// Rows and columns of the output, channels in order.
  ImageView output_of(const ImageView& input, const float* data) const noexcept;
  /// Floats that run() needs to work in.
  std::int64_t scratch_floats(const ImageView& input) const noexcept;
  /// Computes a band of the output. Bands may run at once on several threads.
  void run(const ImageView& input, float* output, Band band, float* scratch) const;

  /// Whether the image is so small that run() would take it in one step. Then threads share channels instead
  /// of rows, which they would have to expand twice where they meet: first all of convolve_channels, then all
  /// of project_channels, in one scratch.
  bool runs_by_channels(const ImageView& input) const noexcept;
  /// Requires channels [first, end) of hidden(), borders of panels.
  void convolve_channels(const ImageView& input, Columns channels, float* scratch) const;
  /// Requires channels [first, end) of the output, borders of panels.
  void project_channels(const ImageView& input, float* output, Columns channels, float* scratch) const;
  std::int64_t hidden() const noexcept { return hidden_; }

 private:
  struct Shape;  // What follows from the size of an input.
  struct Step {
    Band output, expanded;
  };
  struct Scratch {
    float *ring, *convolved, *padded;
  };
  Shape shape_of(const ImageView& input) const noexcept;
  Scratch divide(const Shape& shape, float* scratch) const noexcept;
  void convolve(const ImageView& input, const Shape& shape, const Step& step, Columns channels,
                const Scratch& scratch) const;
  void project(const ImageView& input, const Shape& shape, Band rows, Columns columns, const Scratch& scratch,
               float* output) const;
  void pad_rows(const ImageView& input, const Shape& shape, Band rows, float* padded) const;
  void expand_rows(const ImageView& input, const Shape& shape, Band rows, Columns panel, float* ring,
                   const float* padded) const;
  void depthwise_rows(const Shape& shape, Band rows, Columns panel, const float* ring, float* to) const;

  Padding padding_;
  bool stem_;
  bool residual_;
  std::int64_t stem_stride_;
  std::int64_t stride_;
  std::int64_t hidden_;
  PackedConvolution expand_, project_;
  at::Tensor taps_, depthwise_bias_;
};

}  // namespace cistern::models
