// The inner loops of the tuned MNIST step, without torch: plain floats in, plain floats out, one
// thread. Channels lie innermost (height, width, channel), so that 32 filters are four vectors of eight.
#pragma once

#include <cstdint>

namespace cistern::models {

struct ConvPoolWeights {
  const float* taps;  ///< [9][32]
  const float* bias;  ///< [32]
};

/// 3x3 convolution, bias, relu and 2x2 max-pool of one image [28][28] into features [13][13][32].
/// winners [13][13][32] says which of the four positions gave each feature; 4 where relu let none through.
void conv_pool_forward(const float* image, const ConvPoolWeights& weights, float* features,
                       std::uint8_t* winners);

/// Adds the image's share to the weight gradients, from the features' gradients and the winners of the
/// forward pass.
void conv_pool_backward(const float* image, const float* feature_gradients, const std::uint8_t* winners,
                        float* tap_gradients, float* bias_gradients);

/// The linear layer's weights [10][5408], with features in the order above, and its bias [10].
struct DenseWeights {
  const float* weights;
  const float* bias;
};

/// Images that go through the linear layer together, so that its weights are read once for both.
inline constexpr int kImagePair = 2;

/// logits [images][10] of features [images][5408]. Requires 1 or 2 images.
void dense_forward(const float* features, int images, const DenseWeights& dense, float* logits);

/// feature_gradients [images][5408] from logit_gradients [images][10]. Requires 1 or 2 images.
void dense_backward(const float* logit_gradients, int images, const DenseWeights& dense,
                    float* feature_gradients);

/// weight_gradients [10][5408] from all images of a batch, for features [first, end) only, so that threads
/// can share it. Requires multiples of 32.
struct FeatureSlice {
  int first;
  int end;
};
void dense_weight_gradients(const float* features, const float* logit_gradients, std::int64_t images,
                            FeatureSlice slice, float* weight_gradients);

struct AdamSpans {
  float* parameters;
  const float* gradients;
  float* first_moments;
  float* second_moments;
};

struct AdamRates {
  float step_size;  ///< The learning rate with both bias corrections.
  float first;      ///< 1 - beta1
  float second;     ///< 1 - beta2
  float epsilon;
};

/// One Adam step of `count` parameters (models/keras_adam.hpp says which).
void adam_step(const AdamSpans& spans, std::int64_t count, const AdamRates& rates);

}  // namespace cistern::models
