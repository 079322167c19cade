#include "models/inverted_residual.hpp"

#include <ATen/ATen.h>

#include <algorithm>

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
  std::int64_t padded_rows,
      padded_floats;  ///< Rows of the picture with zeros around them, and the length of one.

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
  shape.padded_rows = (shape.ring_rows - 1) * stem_stride_ + 3;
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
  return shape.ring_floats(hidden_) + shape.depthwise_floats(hidden_) +
         shape.padded_rows * shape.padded_floats;
}

// What rows of the stem's output look at, with zeros around it, in the order channels last.
void InvertedResidual::pad_rows(const ImageView& input, const Shape& shape, Band rows, float* padded) const {
  const std::int64_t first =
      rows.first * stem_stride_ - side_padding(padding_, input.rows, stem_stride_).before;
  const std::int64_t before_columns = side_padding(padding_, input.columns, stem_stride_).before;
  const std::int64_t channels = input.channels;
  const std::int64_t count = (rows.end - rows.first - 1) * stem_stride_ + 3;
  for (std::int64_t r = 0; r < count; ++r) {
    float* line = padded + r * shape.padded_floats;
    std::fill_n(line, shape.padded_floats, 0.0f);
    if (first + r < 0 || first + r >= input.rows) continue;
    const float* from = input.data + (first + r) * input.row_stride;
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
}

// Into a ring of rows, where row y lies at y modulo its length.
void InvertedResidual::expand_rows(const ImageView& input, const Shape& shape, Band rows, Columns panel,
                                   float* ring, const float* padded) const {
  const std::int64_t width = panel.end - panel.first;
  for (std::int64_t row = rows.first; row < rows.end;) {
    const std::int64_t slot = row % shape.ring_rows;
    const std::int64_t run = stem_ ? 1 : std::min(rows.end - row, shape.ring_rows - slot);
    const LeftMatrix left =
        stem_ ? LeftMatrix{padded + (row - rows.first) * stem_stride_ * shape.padded_floats,
                           stem_stride_ * input.channels, shape.columns, 3, shape.padded_floats}
              : LeftMatrix{input.data + row * input.row_stride, input.channels, run * shape.columns};
    multiply(left, expand_.matrix(), panel, {ring + slot * shape.columns * width, width, Ending::kRelu6});
    row += run;
  }
}

void InvertedResidual::depthwise_rows(const Shape& shape, Band rows, Columns panel, const float* ring,
                                      float* to) const {
  const DepthwiseWeights weights{taps_.const_data_ptr<float>(), depthwise_bias_.const_data_ptr<float>(),
                                 hidden_};
  for (std::int64_t y = rows.first; y < rows.end; ++y, to += shape.output_columns * hidden_) {
    DepthwiseRows seen{{}, shape.columns, shape.before_columns, stride_};
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::int64_t row = y * stride_ - shape.before_rows + r;
      const bool inside = row >= 0 && row < shape.rows;
      seen.rows[r] =
          inside ? ring + row % shape.ring_rows * shape.columns * (panel.end - panel.first) : nullptr;
    }
    depthwise_row(seen, weights, panel, to, shape.output_columns);
  }
}

// Panel by panel, each in a ring of its own that stays in L1 between expansion and depthwise convolution.
void InvertedResidual::convolve(const ImageView& input, const Shape& shape, const Step& step,
                                Columns channels, const Scratch& scratch) const {
  for (Columns panel{channels.first, channels.first}; panel.first < channels.end; panel.first = panel.end) {
    panel.end = panel.first + panel_width(panel.first, hidden_);
    float* const ring = scratch.ring + shape.ring_rows * shape.columns * panel.first;
    expand_rows(input, shape, step.expanded, panel, ring, scratch.padded);
    depthwise_rows(shape, step.output, panel, ring, scratch.convolved);
  }
}

void InvertedResidual::project(const ImageView& input, const Shape& shape, Band rows, Columns columns,
                               const Scratch& scratch, float* output) const {
  const std::int64_t outputs = project_.outputs();
  const std::int64_t first = rows.first * shape.output_columns * outputs + columns.first;
  multiply({scratch.convolved, hidden_, (rows.end - rows.first) * shape.output_columns}, project_.matrix(),
           columns,
           {output + first, outputs, residual_ ? Ending::kAdd : Ending::kNone,
            residual_ ? input.data + first : nullptr});
}

InvertedResidual::Scratch InvertedResidual::divide(const Shape& shape, float* scratch) const noexcept {
  float* const convolved = scratch + shape.ring_floats(hidden_);
  return {scratch, convolved, convolved + shape.depthwise_floats(hidden_)};
}

void InvertedResidual::run(const ImageView& input, float* output, Band band, float* scratch) const {
  const Shape shape = shape_of(input);
  const Scratch parts = divide(shape, scratch);
  std::int64_t next = std::max<std::int64_t>(0, band.first * stride_ - shape.before_rows);
  for (std::int64_t y = band.first; y < band.end; y += shape.step_rows) {
    const Band rows{y, std::min(y + shape.step_rows, band.end)};
    const Band made{next, std::min(shape.rows, (rows.end - 1) * stride_ - shape.before_rows + 3)};
    next = made.end;
    if (stem_) pad_rows(input, shape, made, parts.padded);
    convolve(input, shape, {rows, made}, {0, hidden_}, parts);
    project(input, shape, rows, {0, project_.outputs()}, parts, output);
  }
}

bool InvertedResidual::runs_by_channels(const ImageView& input) const noexcept {
  const Shape shape = shape_of(input);
  return !stem_ && shape.step_rows == convolved(shape.rows, stride_);
}

void InvertedResidual::convolve_channels(const ImageView& input, Columns channels, float* scratch) const {
  const Shape shape = shape_of(input);
  convolve(input, shape, {{0, shape.step_rows}, {0, shape.rows}}, channels, divide(shape, scratch));
}

void InvertedResidual::project_channels(const ImageView& input, float* output, Columns channels,
                                        float* scratch) const {
  const Shape shape = shape_of(input);
  project(input, shape, {0, shape.step_rows}, channels, divide(shape, scratch), output);
}

}  // namespace cistern::models
