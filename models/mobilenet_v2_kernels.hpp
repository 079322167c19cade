// The inner loops of MobileNetV2's inference form, without torch: plain floats, one thread, channels
// innermost. Channels come in multiples of eight, as MobileNetV2 has them.
#pragma once

#include <cstdint>

namespace cistern::models {

/// Columns of a weight matrix [inputs][outputs] are packed in panels of 16 (at the end also 24 or 8), each
/// panel [inputs][width]: panel after panel, in order.
struct PackedMatrix {
  const float* panels;
  const float* bias;  ///< [outputs]
  std::int64_t inputs;
  std::int64_t outputs;
};

/// The width of the panel that begins at a column.
constexpr std::int64_t panel_width(std::int64_t column, std::int64_t outputs) {
  const std::int64_t left = outputs - column;
  return left == 24 ? 24 : left >= 16 ? 16 : 8;
}

/// From [outputs][inputs] to the panels, as many floats.
void pack_matrix(const float* weights, std::int64_t inputs, std::int64_t outputs, float* panels);

/// Where the rows of the left matrix lie: `segments` pieces of inputs / segments floats, a whole image row
/// apart. One segment is an ordinary matrix; three make a 3x3 convolution over padded image rows.
struct LeftMatrix {
  const float* data;
  std::int64_t row_stride;  ///< Floats from one row to the next.
  std::int64_t rows;
  std::int64_t segments = 1;
  std::int64_t segment_stride = 0;
};

/// What happens to a sum before it is stored.
enum class Ending : std::uint8_t { kNone, kRelu6, kAdd };

struct Product {
  float* data;  ///< Of the first column that is asked for.
  std::int64_t row_stride;
  Ending ending = Ending::kNone;
  const float* added = nullptr;  ///< For kAdd: of the product's layout.
};

/// Columns [first, end) of the product, both borders of panels.
struct Columns {
  std::int64_t first;
  std::int64_t end;
};

/// left x matrix + bias.
void multiply(const LeftMatrix& left, const PackedMatrix& matrix, Columns columns, const Product& product);

struct DepthwiseWeights {
  const float* taps;  ///< [channels / 8][9][8]
  const float* bias;  ///< [channels]
  std::int64_t channels;
};

/// From [channels][9] to taps, as many floats.
void pack_depthwise(const float* weights, std::int64_t channels, float* taps);

/// Three rows of an image [columns][channels that are asked for], and how a 3x3 window goes over them.
struct DepthwiseRows {
  const float* rows[3];  ///< Null for a row of zeros.
  std::int64_t columns;
  std::int64_t before;  ///< Columns of zeros before the first: 0 or 1. As many follow as are needed.
  std::int64_t stride;
};

/// Channels [first, end), multiples of eight, of one row of output [output_columns][all channels], with relu6.
/// `output` is where the row begins.
void depthwise_row(const DepthwiseRows& input, const DepthwiseWeights& weights, Columns channels,
                   float* output, std::int64_t output_columns);

}  // namespace cistern::models
