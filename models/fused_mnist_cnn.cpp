#include "models/fused_mnist_cnn.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/mnist_cnn.hpp"
#include "models/vector_kernels.hpp"

namespace cistern::models {
namespace {

constexpr std::int64_t kTapCount = 9 * kMnistFilters;
constexpr std::int64_t kConvCount = kTapCount + kMnistFilters;
constexpr std::int64_t kDenseCount = kMnistClasses * kMnistFeatures;
constexpr std::int64_t kPixels = kMnistSide * kMnistSide;
constexpr std::int64_t kCells = kMnistPooledSide * kMnistPooledSide;
// Images per task. Each task sums its own gradients, and the tasks' sums are added in order: the result is
// the same whichever thread did what.
constexpr std::int64_t kChunk = 8;
constexpr int kSlice = 13 * kMnistFilters;  // Features per task of the linear layer's gradients.

std::int64_t chunks_of(std::int64_t images) {
  return (images + kChunk - 1) / kChunk;
}

// Where in the flat tensor each parameter begins: taps, convolution's bias, linear weights, linear bias.
struct Flat {
  explicit Flat(const at::Tensor& flat) : taps(flat.mutable_data_ptr<float>()) {}
  float* taps;
  float* conv_bias = taps + kTapCount;
  float* dense = taps + kConvCount;
  float* dense_bias = dense + kDenseCount;
};

// Loss and hit of one image; logits become d(loss)/d(logits) * scale = (softmax - one hot) * scale.
void softmax_cross_entropy(float* logits, std::int64_t label, float scale, BatchSums& sums) {
  const float* best = std::max_element(logits, logits + kMnistClasses);
  const float largest = *best, label_logit = logits[label];
  sums.correct += best - logits == label;
  float total = 0.0f;
  for (std::int64_t k = 0; k < kMnistClasses; ++k) total += logits[k] = std::exp(logits[k] - largest);
  for (std::int64_t k = 0; k < kMnistClasses; ++k) logits[k] *= scale / total;
  logits[label] -= scale;
  sums.loss += std::log(total) - (label_logit - largest);
  ++sums.count;
}

}  // namespace

FusedMnistCnn::FusedMnistCnn(std::int64_t largest_batch, int threads)
    : parameters_(at::zeros({kMnistParameters})),
      gradients_(at::zeros({kMnistParameters})),
      features_(at::empty({largest_batch, kMnistFeatures})),
      winners_(at::empty({largest_batch, kMnistFeatures}, at::kByte)),
      logit_gradients_(at::empty({largest_batch, kMnistClasses})),
      feature_gradients_(at::empty({chunks_of(largest_batch), kImagePair, kMnistFeatures})),
      chunk_gradients_(at::empty({chunks_of(largest_batch), kConvCount})),
      chunk_sums_(static_cast<std::size_t>(chunks_of(largest_batch))),
      team_(threads) {}

at::Tensor FusedMnistCnn::pack(const std::vector<at::Tensor>& parameters) {
  const at::Tensor taps = parameters[0].view({kMnistFilters, 9}).t().reshape(-1);
  const at::Tensor dense =
      parameters[2].view({kMnistClasses, kMnistFilters, kCells}).transpose(1, 2).reshape(-1);
  return at::cat({taps, parameters[1], dense, parameters[3]});
}

std::vector<at::Tensor> FusedMnistCnn::unpack(const at::Tensor& flat) {
  const std::vector<at::Tensor> parts =
      flat.split_with_sizes({kTapCount, kMnistFilters, kDenseCount, kMnistClasses});
  const at::Tensor taps = parts[0].view({9, kMnistFilters}).t().contiguous().view({kMnistFilters, 1, 3, 3});
  const at::Tensor dense = parts[2].view({kMnistClasses, kCells, kMnistFilters}).transpose(1, 2);
  return {taps, parts[1].clone(), dense.reshape({kMnistClasses, kMnistFeatures}), parts[3].clone()};
}

// Two images at a time through the whole network and back, while their features are still in the cache.
BatchSums FusedMnistCnn::run_chunk(const LabelledImages& data, std::span<const std::int64_t> rows,
                                   std::int64_t chunk, Pass pass) {
  const Flat weights(parameters_);
  const ConvPoolWeights conv{weights.taps, weights.conv_bias};
  const DenseWeights dense{weights.dense, weights.dense_bias};
  const float* pixels = data.images.const_data_ptr<float>();
  const std::int64_t* labels = data.labels.const_data_ptr<std::int64_t>();
  float* features = features_.mutable_data_ptr<float>();
  std::uint8_t* winners = winners_.mutable_data_ptr<std::uint8_t>();
  float* logits = logit_gradients_.mutable_data_ptr<float>();
  float* feature_gradients =
      feature_gradients_.mutable_data_ptr<float>() + chunk * kImagePair * kMnistFeatures;
  float* conv_gradients = chunk_gradients_.mutable_data_ptr<float>() + chunk * kConvCount;
  std::fill_n(conv_gradients, kConvCount, 0.0f);

  const auto count = static_cast<std::int64_t>(rows.size());
  const float scale = 1.0f / static_cast<float>(count);
  const std::int64_t end = std::min(count, (chunk + 1) * kChunk);
  BatchSums sums;
  for (std::int64_t first = chunk * kChunk; first < end; first += kImagePair) {
    const int images = static_cast<int>(std::min<std::int64_t>(kImagePair, end - first));
    for (std::int64_t i = first; i < first + images; ++i) {
      conv_pool_forward(pixels + rows[i] * kPixels, conv, features + i * kMnistFeatures,
                        winners + i * kMnistFeatures);
    }
    dense_forward(features + first * kMnistFeatures, images, dense, logits + first * kMnistClasses);
    for (std::int64_t i = first; i < first + images; ++i) {
      softmax_cross_entropy(logits + i * kMnistClasses, labels[rows[i]], scale, sums);
    }
    if (pass == Pass::kForward) continue;
    dense_backward(logits + first * kMnistClasses, images, dense, feature_gradients);
    for (std::int64_t i = first; i < first + images; ++i) {
      conv_pool_backward(pixels + rows[i] * kPixels, feature_gradients + (i - first) * kMnistFeatures,
                         winners + i * kMnistFeatures, conv_gradients, conv_gradients + kTapCount);
    }
  }
  return sums;
}

BatchSums FusedMnistCnn::run(const LabelledImages& data, std::span<const std::int64_t> rows, Pass pass) {
  const auto chunks = static_cast<std::uint32_t>(chunks_of(static_cast<std::int64_t>(rows.size())));
  team_.for_each(chunks,
                 [&](std::uint32_t chunk) { chunk_sums_[chunk] = run_chunk(data, rows, chunk, pass); });
  BatchSums sums;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) sums += chunk_sums_[chunk];
  return sums;
}

// Over the images of the batch: in each slice of the linear layer's features, then in the convolution's
// chunks.
void FusedMnistCnn::sum_gradients(std::int64_t images) {
  const Flat gradients(gradients_);
  const float* features = features_.const_data_ptr<float>();
  const float* logit_gradients = logit_gradients_.const_data_ptr<float>();
  team_.for_each(kMnistFeatures / kSlice, [&](std::uint32_t slice) {
    const int first = static_cast<int>(slice) * kSlice;
    dense_weight_gradients(features, logit_gradients, images, {first, first + kSlice}, gradients.dense);
  });
  std::fill_n(gradients.dense_bias, kMnistClasses, 0.0f);
  for (std::int64_t i = 0; i < images * kMnistClasses; ++i)
    gradients.dense_bias[i % kMnistClasses] += logit_gradients[i];
  const float* chunk_gradients = chunk_gradients_.const_data_ptr<float>();
  std::copy_n(chunk_gradients, kConvCount, gradients.taps);
  for (std::int64_t i = kConvCount; i < chunks_of(images) * kConvCount; ++i) {
    gradients.taps[i % kConvCount] += chunk_gradients[i];
  }
}

BatchSums FusedMnistCnn::forward_backward(const LabelledImages& data, std::span<const std::int64_t> rows) {
  const BatchSums sums = run(data, rows, Pass::kBoth);
  sum_gradients(sums.count);
  return sums;
}

BatchSums FusedMnistCnn::evaluate(const LabelledImages& data) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(features_.size(0)));
  BatchSums sums;
  for (std::int64_t first = 0; first < data.images.size(0); first += features_.size(0)) {
    rows.resize(static_cast<std::size_t>(std::min(features_.size(0), data.images.size(0) - first)));
    std::iota(rows.begin(), rows.end(), first);
    sums += run(data, rows, Pass::kForward);
  }
  return sums;
}

}  // namespace cistern::models
