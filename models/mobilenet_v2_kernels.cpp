// Written once with GCC's vector types and compiled twice, for AVX2+FMA and for the baseline, as
// vector_kernels.cpp is.
#include "models/mobilenet_v2_kernels.hpp"

#include <algorithm>

namespace cistern::models {
namespace {

#define CISTERN_INLINE inline __attribute__((always_inline))

using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
constexpr std::int64_t kLanes = 8;
constexpr int kTaps = 9;

CISTERN_INLINE Floats load(const float* from) {
  return *(const Floats*)from;
}
CISTERN_INLINE void store(float* to, Floats value) {
  *(Floats*)to = value;
}
CISTERN_INLINE Floats relu6(Floats value) {
  const Floats zero = {}, six = zero + 6.0f;
  value = value > zero ? value : zero;
  return value < six ? value : six;
}

// Rows x Vectors sums in registers: with 16 of them, 6 x 2 or 4 x 3 leave room for a row of weights and one
// input.
template <int Rows, int Vectors>
CISTERN_INLINE void multiply_tile(const LeftMatrix& left, const float* at, const PackedMatrix& matrix,
                                  const float* panel, std::int64_t column, std::int64_t first_column,
                                  const Product& product, std::int64_t row) {
  Floats sums[Rows][Vectors];
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) sums[r][v] = load(matrix.bias + column + v * kLanes);
  }
  const std::int64_t stride = left.row_stride, depth = matrix.inputs / left.segments;
  for (std::int64_t segment = 0; segment < left.segments; ++segment, at += left.segment_stride) {
    for (std::int64_t k = 0; k < depth; ++k, panel += Vectors * kLanes) {
      Floats weights[Vectors];
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) weights[v] = load(panel + v * kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < Rows; ++r) {
        const float input = at[r * stride + k];
#pragma GCC unroll 3
        for (int v = 0; v < Vectors; ++v) sums[r][v] += weights[v] * input;
      }
    }
  }
  const std::int64_t offset = row * product.row_stride + column - first_column;
  const auto finish = [&](const auto& last_step) __attribute__((always_inline)) {
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) {
        const std::int64_t to = offset + r * product.row_stride + v * kLanes;
        store(product.data + to, last_step(sums[r][v], to));
      }
    }
  };
  // One branch for all: with few inputs, sums are short and their end weighs as much.
  switch (product.ending) {
    case Ending::kRelu6:
      return finish([&](Floats sum, std::int64_t) __attribute__((always_inline)) { return relu6(sum); });
    case Ending::kAdd:
      return finish([&](Floats sum, std::int64_t to)
                        __attribute__((always_inline)) { return sum + load(product.added + to); });
    case Ending::kNone:
      return finish([&](Floats sum, std::int64_t) __attribute__((always_inline)) { return sum; });
  }
}

template <int Vectors>
CISTERN_INLINE void multiply_panel(const LeftMatrix& left, const PackedMatrix& matrix, const float* panel,
                                   std::int64_t column, std::int64_t first_column, const Product& product) {
  // Tiles as equal as can be: 49 rows in sixes would leave a tile of one, which costs almost as much as a
  // full one.
  constexpr std::int64_t kMostRows = Vectors == 3 ? 4 : 6;
  const std::int64_t tiles = (left.rows + kMostRows - 1) / kMostRows;
  for (std::int64_t tile = 0, row = 0; tile < tiles; ++tile) {
    const std::int64_t rows = left.rows / tiles + (tile < left.rows % tiles ? 1 : 0);
    const float* at = left.data + row * left.row_stride;
    switch (rows) {
      case 1:
        multiply_tile<1, Vectors>(left, at, matrix, panel, column, first_column, product, row);
        break;
      case 2:
        multiply_tile<2, Vectors>(left, at, matrix, panel, column, first_column, product, row);
        break;
      case 3:
        multiply_tile<3, Vectors>(left, at, matrix, panel, column, first_column, product, row);
        break;
      case 4:
        multiply_tile<4, Vectors>(left, at, matrix, panel, column, first_column, product, row);
        break;
      default:
        if constexpr (kMostRows == 6) {
          if (rows == 5) {
            multiply_tile<5, Vectors>(left, at, matrix, panel, column, first_column, product, row);
          } else {
            multiply_tile<6, Vectors>(left, at, matrix, panel, column, first_column, product, row);
          }
        }
    }
    row += rows;
  }
}

CISTERN_INLINE void multiply_body(const LeftMatrix& left, const PackedMatrix& matrix, Columns columns,
                                  const Product& product) {
  for (std::int64_t column = columns.first; column < columns.end;) {
    const float* panel = matrix.panels + column * matrix.inputs;
    const std::int64_t width = panel_width(column, matrix.outputs);
    if (width == 24) multiply_panel<3>(left, matrix, panel, column, columns.first, product);
    if (width == 16) multiply_panel<2>(left, matrix, panel, column, columns.first, product);
    if (width == 8) multiply_panel<1>(left, matrix, panel, column, columns.first, product);
    column += width;
  }
}

// Neighbouring outputs share most of their inputs: each is loaded once for all of them. Taps [First, End) of
// each row of the window lie in the image.
template <int Stride, int Outputs, int First = 0, int End = 3>
CISTERN_INLINE void depthwise_inner(const DepthwiseRows& input, std::int64_t offset, std::int64_t width,
                                    const Floats (&taps)[kTaps], Floats bias, float* output,
                                    std::int64_t channels) {
  Floats sums[Outputs];
#pragma GCC unroll 4
  for (int o = 0; o < Outputs; ++o) sums[o] = bias;
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r) {
    if (input.rows[r] == nullptr) continue;
#pragma GCC unroll 9
    for (int j = First; j < (Outputs - 1) * Stride + End; ++j) {
      const Floats value = load(input.rows[r] + (offset + j * width));
#pragma GCC unroll 4
      for (int o = 0; o < Outputs; ++o) {
        const int tap = j - o * Stride;
        if (tap >= First && tap < End) sums[o] += value * taps[r * 3 + tap];
      }
    }
  }
#pragma GCC unroll 4
  for (int o = 0; o < Outputs; ++o) store(output + o * channels, relu6(sums[o]));
}

// An image narrower than the window.
CISTERN_INLINE void depthwise_edge(const DepthwiseRows& input, std::int64_t column, std::int64_t channel,
                                   std::int64_t width, const float* taps, Floats bias, float* output) {
  Floats sum = bias;
  for (int tap = 0; tap < kTaps; ++tap) {
    const std::int64_t at = column + tap % 3;
    if (input.rows[tap / 3] == nullptr || at < 0 || at >= input.columns) continue;
    sum += load(input.rows[tap / 3] + at * width + channel) * load(taps + tap * kLanes);
  }
  store(output, relu6(sum));
}

template <int Stride>
CISTERN_INLINE void depthwise_row_of(const DepthwiseRows& input, const DepthwiseWeights& weights,
                                     Columns range, float* output, std::int64_t output_columns) {
  const std::int64_t channels = weights.channels, width = range.end - range.first;
  // Outputs [first, end) look at no zeros.
  const std::int64_t first = std::min((input.before + Stride - 1) / Stride, output_columns);
  const std::int64_t end =
      input.columns + input.before < 3
          ? first
          : std::max(first, std::min(output_columns, (input.columns - 3 + input.before) / Stride + 1));
  for (std::int64_t channel = 0; channel < width; channel += kLanes) {
    const float* packed = weights.taps + (range.first + channel) * kTaps;
    const Floats bias = load(weights.bias + range.first + channel);
    Floats taps[kTaps];
#pragma GCC unroll 9
    for (int tap = 0; tap < kTaps; ++tap) taps[tap] = load(packed + tap * kLanes);
    float* const to = output + range.first + channel;
    const auto offset = [&](std::int64_t o) { return (o * Stride - input.before) * width + channel; };
    const auto edge = [&](std::int64_t o) __attribute__((always_inline)) {
      const std::int64_t column = o * Stride - input.before;
      float* const at = to + o * channels;
      if (column == -1 && input.columns >= 2) {
        depthwise_inner<Stride, 1, 1, 3>(input, offset(o), width, taps, bias, at, channels);
      } else if (column >= 0 && column + 2 == input.columns) {
        depthwise_inner<Stride, 1, 0, 2>(input, offset(o), width, taps, bias, at, channels);
      } else {
        depthwise_edge(input, column, channel, width, packed, bias, at);
      }
    };
    std::int64_t o = 0;
    for (; o < first; ++o) edge(o);
    for (; o + 4 <= end; o += 4) {
      depthwise_inner<Stride, 4>(input, offset(o), width, taps, bias, to + o * channels, channels);
    }
    for (; o + 2 <= end; o += 2) {
      depthwise_inner<Stride, 2>(input, offset(o), width, taps, bias, to + o * channels, channels);
    }
    if (o < end) {
      depthwise_inner<Stride, 1>(input, offset(o), width, taps, bias, to + o * channels, channels);
      ++o;
    }
    for (; o < output_columns; ++o) edge(o);
  }
}

CISTERN_INLINE void depthwise_row_body(const DepthwiseRows& input, const DepthwiseWeights& weights,
                                       Columns channels, float* output, std::int64_t output_columns) {
  if (input.stride == 1) return depthwise_row_of<1>(input, weights, channels, output, output_columns);
  depthwise_row_of<2>(input, weights, channels, output, output_columns);
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

__attribute__((target("avx2,fma"))) void multiply_avx2(const LeftMatrix& left, const PackedMatrix& matrix,
                                                       Columns columns, const Product& product) {
  multiply_body(left, matrix, columns, product);
}

__attribute__((target("avx2,fma"))) void depthwise_row_avx2(const DepthwiseRows& input,
                                                            const DepthwiseWeights& weights, Columns channels,
                                                            float* output, std::int64_t output_columns) {
  depthwise_row_body(input, weights, channels, output, output_columns);
}

}  // namespace

void multiply(const LeftMatrix& left, const PackedMatrix& matrix, Columns columns, const Product& product) {
  if (kHasAvx2) return multiply_avx2(left, matrix, columns, product);
  multiply_body(left, matrix, columns, product);
}

void depthwise_row(const DepthwiseRows& input, const DepthwiseWeights& weights, Columns channels,
                   float* output, std::int64_t output_columns) {
  if (kHasAvx2) return depthwise_row_avx2(input, weights, channels, output, output_columns);
  depthwise_row_body(input, weights, channels, output, output_columns);
}

void pack_matrix(const float* weights, std::int64_t inputs, std::int64_t outputs, float* panels) {
  for (std::int64_t column = 0; column < outputs;) {
    const std::int64_t width = panel_width(column, outputs);
    for (std::int64_t k = 0; k < inputs; ++k) {
      for (std::int64_t i = 0; i < width; ++i) *panels++ = weights[(column + i) * inputs + k];
    }
    column += width;
  }
}

void pack_depthwise(const float* weights, std::int64_t channels, float* taps) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (int tap = 0; tap < kTaps; ++tap) {
      taps[channel / kLanes * kLanes * kTaps + tap * kLanes + channel % kLanes] =
          weights[channel * kTaps + tap];
    }
  }
}

}  // namespace cistern::models
