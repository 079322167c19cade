// Each loop is written once with GCC's vector types and compiled twice, for AVX2+FMA and for the baseline;
// which one runs is decided at run time by what the processor has, not by its maker's name (as
// target_clones("arch=...") would).
#include "models/vector_kernels.hpp"

#include <cmath>

namespace cistern::models {
namespace {

#define CISTERN_INLINE inline __attribute__((always_inline))

using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
using Ints = std::int32_t __attribute__((vector_size(32)));
using Bytes = std::uint8_t __attribute__((vector_size(8), aligned(1), may_alias));

constexpr int kSide = 28, kPooled = 13, kFilters = 32, kTaps = 9, kLanes = 8;
constexpr int kFeatures = kPooled * kPooled * kFilters, kClasses = 10, kHalf = kClasses / 2;

// The top left pixel of the 4x4 patch under a pooled cell, and the cell's first channel.
CISTERN_INLINE const float* patch_of(const float* image, int cell) {
  return image + cell / kPooled * 2 * kSide + cell % kPooled * 2;
}
CISTERN_INLINE const float* tap_of(const float* patch, int tap) {
  return patch + tap / 3 * kSide + tap % 3;
}

// Eight channels at a time through the whole image: their nine taps stay in registers.
CISTERN_INLINE void conv_pool_forward_body(const float* image, const ConvPoolWeights& weights,
                                           float* features, std::uint8_t* winners) {
  for (int channel = 0; channel < kFilters; channel += kLanes) {
    Floats taps[kTaps];
    for (int tap = 0; tap < kTaps; ++tap)
      taps[tap] = *(const Floats*)(weights.taps + tap * kFilters + channel);
    const Floats bias = *(const Floats*)(weights.bias + channel);
    for (int cell = 0; cell < kPooled * kPooled; ++cell) {
      const float* patch = patch_of(image, cell);
      Floats sum0 = bias, sum1 = bias, sum2 = bias, sum3 = bias;
#pragma GCC unroll 9
      for (int tap = 0; tap < kTaps; ++tap) {
        const float* pixel = tap_of(patch, tap);
        sum0 += taps[tap] * pixel[0];
        sum1 += taps[tap] * pixel[1];
        sum2 += taps[tap] * pixel[kSide];
        sum3 += taps[tap] * pixel[kSide + 1];
      }
      // Strictly greater: on a tie the first position wins, as in torch's max-pool.
      const Ints right = sum1 > sum0, lower_right = sum3 > sum2;
      const Floats upper = right ? sum1 : sum0, lower = lower_right ? sum3 : sum2;
      const Ints below = lower > upper;
      const Floats best = below ? lower : upper;
      const Ints winner = below ? (lower_right & 1) + 2 : right & 1;
      const Ints alive = best > Floats{};
      *(Floats*)(features + cell * kFilters + channel) = alive ? best : Floats{};
      *(Bytes*)(winners + cell * kFilters + channel) =
          __builtin_convertvector(alive ? winner : Ints{} + 4, Bytes);
    }
  }
}

CISTERN_INLINE void conv_pool_backward_body(const float* image, const float* feature_gradients,
                                            const std::uint8_t* winners, float* tap_gradients,
                                            float* bias_gradients) {
  for (int channel = 0; channel < kFilters; channel += kLanes) {
    Floats taps[kTaps] = {}, bias = {};
    for (int cell = 0; cell < kPooled * kPooled; ++cell) {
      const float* patch = patch_of(image, cell);
      const Floats gradient = *(const Floats*)(feature_gradients + cell * kFilters + channel), none = {};
      const Ints winner = __builtin_convertvector(*(const Bytes*)(winners + cell * kFilters + channel), Ints);
      const Floats at0 = winner == 0 ? gradient : none, at1 = winner == 1 ? gradient : none;
      const Floats at2 = winner == 2 ? gradient : none, at3 = winner == 3 ? gradient : none;
      bias += winner < 4 ? gradient : none;
#pragma GCC unroll 9
      for (int tap = 0; tap < kTaps; ++tap) {
        const float* pixel = tap_of(patch, tap);
        taps[tap] += at0 * pixel[0];
        taps[tap] += at1 * pixel[1];
        taps[tap] += at2 * pixel[kSide];
        taps[tap] += at3 * pixel[kSide + 1];
      }
    }
    for (int tap = 0; tap < kTaps; ++tap) *(Floats*)(tap_gradients + tap * kFilters + channel) += taps[tap];
    *(Floats*)(bias_gradients + channel) += bias;
  }
}

// Five classes at a time: their sums for two images fill ten of sixteen registers.
template <int Images>
CISTERN_INLINE void dense_forward_of(const float* features, const DenseWeights& dense, float* logits) {
  for (int half = 0; half < kClasses; half += kHalf) {
    Floats sums[Images][kHalf] = {};
    for (int feature = 0; feature < kFeatures; feature += kLanes) {
#pragma GCC unroll 5
      for (int k = 0; k < kHalf; ++k) {
        const Floats weights = *(const Floats*)(dense.weights + (half + k) * kFeatures + feature);
        for (int i = 0; i < Images; ++i)
          sums[i][k] += weights * *(const Floats*)(features + i * kFeatures + feature);
      }
    }
    for (int i = 0; i < Images; ++i) {
      for (int k = 0; k < kHalf; ++k) {
        float sum = dense.bias[half + k];
        for (int lane = 0; lane < kLanes; ++lane) sum += sums[i][k][lane];
        logits[i * kClasses + half + k] = sum;
      }
    }
  }
}

template <int Images>
CISTERN_INLINE void dense_backward_of(const float* logit_gradients, const DenseWeights& dense,
                                      float* feature_gradients) {
  constexpr int kVectors = kFilters / kLanes;
  for (int feature = 0; feature < kFeatures; feature += kFilters) {
    Floats sums[Images][kVectors] = {};
#pragma GCC unroll 10
    for (int k = 0; k < kClasses; ++k) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Floats weights = *(const Floats*)(dense.weights + k * kFeatures + feature + v * kLanes);
        for (int i = 0; i < Images; ++i) sums[i][v] += weights * logit_gradients[i * kClasses + k];
      }
    }
    for (int i = 0; i < Images; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        *(Floats*)(feature_gradients + i * kFeatures + feature + v * kLanes) = sums[i][v];
      }
    }
  }
}

CISTERN_INLINE void dense_weight_gradients_body(const float* features, const float* logit_gradients,
                                                std::int64_t images, FeatureSlice slice,
                                                float* weight_gradients) {
  for (int feature = slice.first; feature < slice.end; feature += 2 * kLanes) {
    for (int half = 0; half < kClasses; half += kHalf) {
      Floats low[kHalf] = {}, high[kHalf] = {};
      for (std::int64_t i = 0; i < images; ++i) {
        const float* at = features + i * kFeatures + feature;
        const Floats first = *(const Floats*)at, second = *(const Floats*)(at + kLanes);
#pragma GCC unroll 5
        for (int k = 0; k < kHalf; ++k) {
          const float gradient = logit_gradients[i * kClasses + half + k];
          low[k] += first * gradient;
          high[k] += second * gradient;
        }
      }
      for (int k = 0; k < kHalf; ++k) {
        float* to = weight_gradients + (half + k) * kFeatures + feature;
        *(Floats*)to = low[k], *(Floats*)(to + kLanes) = high[k];
      }
    }
  }
}

CISTERN_INLINE void adam_step_body(const AdamSpans& spans, std::int64_t count, const AdamRates& rates) {
  float* __restrict parameters = spans.parameters;
  const float* __restrict gradients = spans.gradients;
  float* __restrict first = spans.first_moments;
  float* __restrict second = spans.second_moments;
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = gradients[i];
    first[i] += (gradient - first[i]) * rates.first;
    second[i] += (gradient * gradient - second[i]) * rates.second;
    parameters[i] -= rates.step_size * first[i] / (std::sqrt(second[i]) + rates.epsilon);
  }
}

CISTERN_INLINE void dense_forward_body(const float* features, int images, const DenseWeights& dense,
                                       float* logits) {
  if (images == kImagePair) return dense_forward_of<kImagePair>(features, dense, logits);
  dense_forward_of<1>(features, dense, logits);
}

CISTERN_INLINE void dense_backward_body(const float* logit_gradients, int images, const DenseWeights& dense,
                                        float* feature_gradients) {
  if (images == kImagePair) return dense_backward_of<kImagePair>(logit_gradients, dense, feature_gradients);
  dense_backward_of<1>(logit_gradients, dense, feature_gradients);
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

}  // namespace

// Defines the function `name` of the header from name_body, with a second body for AVX2.
#define CISTERN_DEFINE_KERNEL(name, parameters, arguments)          \
  namespace {                                                       \
  __attribute__((target("avx2,fma"))) void name##_avx2 parameters { \
    name##_body arguments;                                          \
  }                                                                 \
  }                                                                 \
  void name parameters {                                            \
    if (kHasAvx2) return name##_avx2 arguments;                     \
    name##_body arguments;                                          \
  }

CISTERN_DEFINE_KERNEL(conv_pool_forward,
                      (const float* image, const ConvPoolWeights& weights, float* features,
                       std::uint8_t* winners),
                      (image, weights, features, winners))
CISTERN_DEFINE_KERNEL(conv_pool_backward,
                      (const float* image, const float* feature_gradients, const std::uint8_t* winners,
                       float* tap_gradients, float* bias_gradients),
                      (image, feature_gradients, winners, tap_gradients, bias_gradients))
CISTERN_DEFINE_KERNEL(dense_forward,
                      (const float* features, int images, const DenseWeights& dense, float* logits),
                      (features, images, dense, logits))
CISTERN_DEFINE_KERNEL(dense_backward,
                      (const float* logit_gradients, int images, const DenseWeights& dense,
                       float* feature_gradients),
                      (logit_gradients, images, dense, feature_gradients))
CISTERN_DEFINE_KERNEL(dense_weight_gradients,
                      (const float* features, const float* logit_gradients, std::int64_t images,
                       FeatureSlice slice, float* weight_gradients),
                      (features, logit_gradients, images, slice, weight_gradients))
CISTERN_DEFINE_KERNEL(adam_step, (const AdamSpans& spans, std::int64_t count, const AdamRates& rates),
                      (spans, count, rates))

}  // namespace cistern::models
