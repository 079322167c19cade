#include "models/inverted_residual.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace cistern::models {
namespace {

constexpr std::int64_t kLanes = 8;
// Pixels of output at a time: enough that the weights, read once for them, come from L2 as fast as they are
// used.
constexpr std::int64_t kPixels = 49;

std::int64_t convolved(std::int64_t side, std::int64_t stride) {
  return (side - 1) / stride + 1;
}

}  // namespace

PackedConvolution::PackedConvolution(const at::Tensor& weight, const at::Tensor& bias) {
  const std::int64_t outputs = (weight.size(0) + kLanes - 1) / kLanes * kLanes;
  const std::int64_t inputs = weight.numel() / weight.size(0);
  // Row, column, channel: the order in which pixels lie in memory.
  at::Tensor rows = at::zeros({outputs, inputs});
  rows.narrow(0, 0, weight.size(0)).copy_(weight.permute({0, 2, 3, 1}).reshape({weight.size(0), inputs}));
  bias_ = at::zeros({outputs});
  bias_.narrow(0, 0, bias.size(0)).copy_(bias);
  panels_ = at::empty({outputs, inputs});
  pack_matrix(rows.const_data_ptr<float>(), inputs, outputs, panels_.mutable_data_ptr<float>());
}

PackedMatrix PackedConvolution::matrix() const noexcept {
  return {panels_.const_data_ptr<float>(), bias_.const_data_ptr<float>(), panels_.size(1), panels_.size(0)};
}

struct InvertedResidual::Shape {
  std::int64_t rows, columns;  ///< Of the expanded image.
  std::int64_t output_columns;
  std::int64_t before_rows, before_columns;
  std::int64_t step_rows;  ///< Rows of output at a time,
  std::int64_t ring_rows;  ///< and of the expanded image that they look at.
  std::int64_t padded_floats;

  std::int64_t ring_floats(std::int64_t hidden) const noexcept { return ring_rows * columns * hidden; }
  std::int64_t depthwise_floats(std::int64_t hidden) const noexcept {
    return step_rows * output_columns * hidden;
  }
};

InvertedResidual::InvertedResidual(const Layers& layers, Padding padding)
    : padding_(padding),
      stem_(layers.expand.kind == ConvLayer::Kind::kStem),
      residual_(layers.project.residual == ConvLayer::Residual::kCloses),
      stem_stride_(layers.expand.stride),
      stride_(layers.depthwise.stride),
      hidden_(layers.depthwise.outputs),
      expand_(layers.expand_weights.weight, layers.expand_weights.bias),
      project_(layers.project_weights.weight, layers.project_weights.bias),
      taps_(at::empty({hidden_ * 9})),
      depthwise_bias_(layers.depthwise_weights.bias.clone()) {
  const at::Tensor taps = layers.depthwise_weights.weight.contiguous();
  pack_depthwise(taps.const_data_ptr<float>(), hidden_, taps_.mutable_data_ptr<float>());
}

InvertedResidual::Shape InvertedResidual::shape_of(const ImageView& input) const noexcept {
  Shape shape;
  shape.rows = convolved(input.rows, stem_stride_);
  shape.columns = convolved(input.columns, stem_stride_);
  shape.output_columns = convolved(shape.columns, stride_);
  shape.before_rows = side_padding(padding_, shape.rows, stride_).before;
  shape.before_columns = side_padding(padding_, shape.columns, stride_).before;
  shape.step_rows =
      std::min((kPixels + shape.output_columns - 1) / shape.output_columns, convolved(shape.rows, stride_));
  shape.ring_rows = (shape.step_rows - 1) * stride_ + 3;
  shape.padded_floats = stem_ ? (input.columns + 3) * input.channels : 0;
  return shape;
}

ImageView InvertedResidual::output_of(const ImageView& input, const float* data) const noexcept {
  const Shape shape = shape_of(input);
  const std::int64_t channels = project_.outputs();
  return {data,     convolved(shape.rows, stride_),  shape.output_columns,
          channels, shape.output_columns * channels, channels,
          1};
}

std::int64_t InvertedResidual::scratch_floats(const ImageView& input) const noexcept {
  const Shape shape = shape_of(input);
  return shape.ring_floats(hidden_) + shape.depthwise_floats(hidden_) + 3 * shape.padded_floats;
}

// Three rows of the picture go into rows with zeros around them, in the order channels last.
void InvertedResidual::stem_row(const ImageView& input, const Shape& shape, std::int64_t row, float* to,
                                float* padded) const {
  const std::int64_t before_rows = side_padding(padding_, input.rows, stem_stride_).before;
  const std::int64_t before_columns = side_padding(padding_, input.columns, stem_stride_).before;
  const std::int64_t channels = input.channels;
  for (std::int64_t r = 0; r < 3; ++r) {
    float* line = padded + r * shape.padded_floats;
    std::fill_n(line, shape.padded_floats, 0.0f);
    const std::int64_t y = row * stem_stride_ - before_rows + r;
    if (y < 0 || y >= input.rows) continue;
    const float* from = input.data + y * input.row_stride;
    line += before_columns * channels;
    if (input.channel_stride == 1 && input.column_stride == channels) {
      std::copy_n(from, input.columns * channels, line);
      continue;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t x = 0; x < input.columns; ++x) {
        line[x * channels + c] = from[x * input.column_stride + c * input.channel_stride];
      }
    }
  }
  const LeftMatrix left{padded, stem_stride_ * channels, shape.columns, 3, shape.padded_floats};
  multiply(left, expand_.matrix(), {0, hidden_}, {to, hidden_, true});
}

// Into a ring of rows, where row y lies at y modulo its length.
void InvertedResidual::expand_rows(const ImageView& input, const Shape& shape, Band rows, float* ring,
                                   float* padded) const {
  for (std::int64_t row = rows.first; row < rows.end;) {
    const std::int64_t slot = row % shape.ring_rows;
    float* to = ring + slot * shape.columns * hidden_;
    if (stem_) {
      stem_row(input, shape, row, to, padded);
      ++row;
      continue;
    }
    const std::int64_t run = std::min(rows.end - row, shape.ring_rows - slot);
    const LeftMatrix left{input.data + row * input.row_stride, input.channels, run * shape.columns};
    multiply(left, expand_.matrix(), {0, hidden_}, {to, hidden_, true});
    row += run;
  }
}

void InvertedResidual::run(const ImageView& input, float* output, Band band, float* scratch) const {
  const Shape shape = shape_of(input);
  float* const ring = scratch;
  float* const convolved_rows = ring + shape.ring_floats(hidden_);
  float* const padded = convolved_rows + shape.depthwise_floats(hidden_);
  const DepthwiseWeights depthwise{taps_.const_data_ptr<float>(), depthwise_bias_.const_data_ptr<float>(),
                                   hidden_};
  const std::int64_t output_stride = shape.output_columns * project_.outputs();

  std::int64_t next = std::max<std::int64_t>(0, band.first * stride_ - shape.before_rows);
  for (std::int64_t y = band.first; y < band.end; y += shape.step_rows) {
    const std::int64_t count = std::min(shape.step_rows, band.end - y);
    const std::int64_t seen = std::min(shape.rows, (y + count - 1) * stride_ - shape.before_rows + 3);
    expand_rows(input, shape, {next, seen}, ring, padded);
    next = seen;
    for (std::int64_t i = 0; i < count; ++i) {
      DepthwiseRows rows{{}, shape.columns, shape.before_columns, stride_};
      for (std::int64_t r = 0; r < 3; ++r) {
        const std::int64_t row = (y + i) * stride_ - shape.before_rows + r;
        const bool inside = row >= 0 && row < shape.rows;
        rows.rows[r] = inside ? ring + row % shape.ring_rows * shape.columns * hidden_ : nullptr;
      }
      depthwise_row(rows, depthwise, {0, hidden_}, convolved_rows + i * shape.output_columns * hidden_,
                    shape.output_columns);
    }
    const LeftMatrix left{convolved_rows, hidden_, count * shape.output_columns};
    multiply(left, project_.matrix(), {0, project_.outputs()},
             {output + y * output_stride, project_.outputs(), false,
              residual_ ? input.data + y * input.row_stride : nullptr});
  }
}

}  // namespace cistern::models
