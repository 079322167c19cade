#include "models/mobilenet_v2_inference.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "models/inverted_residual.hpp"
#include "models/worker_team.hpp"

namespace cistern::models {
namespace {

constexpr std::int64_t kPanel = 16;

// The share of one of `parts` threads, cut where panels begin.
Columns share_of(std::int64_t outputs, std::int64_t part, std::int64_t parts) {
  const std::int64_t panels = outputs / kPanel;
  return {panels * part / parts * kPanel, part + 1 == parts ? outputs : panels * (part + 1) / parts * kPanel};
}

}  // namespace

struct MobileNetV2Inference::Network {
  Network(const Weights& weights, int thread_count)
      : options(weights.card.network), threads(std::max(1, thread_count)), team(threads) {
    const auto of = [&](const ConvLayer& layer) {
      return LayerWeights{weights.tensors.at(layer.name + ".weight"),
                          weights.tensors.at(layer.name + ".bias")};
    };
    const std::vector<ConvLayer> layers = mobilenet_v2_layers(options);
    for (std::size_t i = 0; i + 3 <= layers.size(); i += 3) {
      blocks.emplace_back(InvertedResidual::Layers{layers[i], layers[i + 1], layers[i + 2], of(layers[i]),
                                                   of(layers[i + 1]), of(layers[i + 2])},
                          options.padding);
    }
    const LayerWeights head = of(layers.back());
    last = PackedConvolution(head.weight, head.bias);
    classifier = PackedConvolution(weights.tensors.at("classifier.1.weight").unsqueeze(-1).unsqueeze(-1),
                                   weights.tensors.at("classifier.1.bias"));
  }

  void features_of(const at::Tensor& image, float* features);
  void run_block(const InvertedResidual& block, const ImageView& input, const ImageView& output, float* data);
  void last_convolution(const ImageView& input, float* features);

  MobileNetV2Options options;
  int threads;
  WorkerTeam team;
  std::vector<InvertedResidual> blocks;
  PackedConvolution last, classifier;
};

void MobileNetV2Inference::Network::run_block(const InvertedResidual& block, const ImageView& input,
                                              const ImageView& output, float* data) {
  const bool by_channels = block.runs_by_channels(input);
  const std::int64_t bands = by_channels ? 1 : std::min<std::int64_t>(threads, output.rows);
  const std::int64_t scratch_floats = block.scratch_floats(input);
  const at::Tensor scratch = at::empty({bands * scratch_floats});
  float* const work = scratch.mutable_data_ptr<float>();
  if (by_channels) {
    const auto parts = static_cast<std::uint32_t>(threads);
    team.for_each(parts, [&](std::uint32_t part) {
      block.convolve_channels(input, share_of(block.hidden(), part, threads), work);
    });
    team.for_each(parts, [&](std::uint32_t part) {
      block.project_channels(input, data, share_of(output.channels, part, threads), work);
    });
    return;
  }
  team.for_each(static_cast<std::uint32_t>(bands), [&](std::uint32_t index) {
    const std::int64_t i = index;
    block.run(input, data, {output.rows * i / bands, output.rows * (i + 1) / bands},
              work + i * scratch_floats);
  });
}

// The last convolution, and the mean over the image.
void MobileNetV2Inference::Network::last_convolution(const ImageView& input, float* features) {
  const std::int64_t pixels = input.rows * input.columns;
  const std::int64_t outputs = last.outputs();
  const at::Tensor convolved = at::empty({pixels, outputs});
  float* const data = convolved.mutable_data_ptr<float>();
  team.for_each(static_cast<std::uint32_t>(threads), [&](std::uint32_t part) {
    const Columns columns = share_of(outputs, part, threads);
    multiply({input.data, input.channels, pixels}, last.matrix(), columns,
             {data + columns.first, outputs, Ending::kRelu6});
    std::fill(features + columns.first, features + columns.end, 0.0f);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::int64_t c = columns.first; c < columns.end; ++c) features[c] += data[pixel * outputs + c];
    }
    for (std::int64_t c = columns.first; c < columns.end; ++c) features[c] /= static_cast<float>(pixels);
  });
}

void MobileNetV2Inference::Network::features_of(const at::Tensor& image, float* features) {
  at::Tensor kept = image;
  ImageView input{image.const_data_ptr<float>(),
                  image.size(1),
                  image.size(2),
                  image.size(0),
                  image.stride(1),
                  image.stride(2),
                  image.stride(0)};
  for (const InvertedResidual& block : blocks) {
    ImageView output = block.output_of(input, nullptr);
    const at::Tensor made = at::empty({output.rows, output.columns, output.channels});
    output.data = made.const_data_ptr<float>();
    run_block(block, input, output, made.mutable_data_ptr<float>());
    kept = made;
    input = output;
  }
  last_convolution(input, features);
}

MobileNetV2Inference::MobileNetV2Inference(const Weights& weights, int threads)
    : network_(std::make_unique<Network>(folded(weights), threads)) {}

MobileNetV2Inference::~MobileNetV2Inference() = default;

at::Tensor MobileNetV2Inference::logits(const at::Tensor& images) {
  Network& network = *network_;
  if (images.dim() != 4 || images.size(1) != network.options.channels || images.scalar_type() != at::kFloat ||
      !images.is_cpu() || images.numel() == 0) {
    throw std::invalid_argument("MobileNetV2 wants images [n, " + std::to_string(network.options.channels) +
                                ", height, width] of type float on the CPU");
  }
  const at::NoGradGuard no_grad;
  const std::int64_t count = images.size(0);
  const std::int64_t inputs = network.last.outputs();
  const std::int64_t outputs = network.classifier.outputs();
  const at::Tensor features = at::empty({count, inputs});
  float* const rows = features.mutable_data_ptr<float>();
  // One image after the other: what passes between blocks stays in the cache.
  for (std::int64_t i = 0; i < count; ++i) network.features_of(images[i], rows + i * inputs);

  const at::Tensor padded = at::empty({count, outputs});
  float* const data = padded.mutable_data_ptr<float>();
  network.team.for_each(static_cast<std::uint32_t>(network.threads), [&](std::uint32_t part) {
    const Columns columns = share_of(outputs, part, network.threads);
    multiply({rows, inputs, count}, network.classifier.matrix(), columns, {data + columns.first, outputs});
  });
  return outputs == network.options.classes ? padded
                                            : padded.narrow(1, 0, network.options.classes).contiguous();
}

}  // namespace cistern::models
