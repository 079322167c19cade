#include "models/mobilenet_v2_layers.hpp"

#include <algorithm>

namespace cistern::models {
namespace {

using Kind = ConvLayer::Kind;
using Residual = ConvLayer::Residual;

constexpr std::int64_t kStemChannels = 32;
constexpr std::int64_t kLastChannels = 1280;

struct Stage {
  std::int64_t expansion, channels, blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

// The nearest multiple of 8, but never less than nine tenths of what was asked.
std::int64_t scaled(std::int64_t channels, double width) {
  const double wanted = static_cast<double>(channels) * width;
  const std::int64_t rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4.0) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + 8 : rounded;
}

void add_block(std::vector<ConvLayer>& layers, const std::string& prefix, std::int64_t expansion,
               std::int64_t outputs, std::int64_t stride) {
  const std::int64_t inputs = layers.back().outputs;
  const std::int64_t inner = inputs * expansion;
  const bool residual = stride == 1 && inputs == outputs;
  int next = 0;
  const auto child = [&](const char* suffix = "") { return prefix + std::to_string(next) + suffix; };
  const Residual opens = residual ? Residual::kOpens : Residual::kNone;
  if (expansion != 1) {
    layers.push_back({child(".0"), child(".1"), Kind::kPointwise, inputs, inner, 1, true, opens});
    ++next;
  }
  layers.push_back({child(".0"), child(".1"), Kind::kDepthwise, inner, inner, stride, true,
                    expansion == 1 ? opens : Residual::kNone});
  ++next;
  ConvLayer project{child(),
                    "",
                    Kind::kPointwise,
                    inner,
                    outputs,
                    1,
                    false,
                    residual ? Residual::kCloses : Residual::kNone};
  ++next;
  project.batch_norm = child();
  layers.push_back(std::move(project));
}

}  // namespace

std::int64_t mobilenet_v2_features(const MobileNetV2Options& options) {
  return scaled(kLastChannels, std::max(1.0, options.width));
}

std::vector<ConvLayer> mobilenet_v2_layers(const MobileNetV2Options& options) {
  std::vector<ConvLayer> layers;
  layers.push_back({"features.0.0", "features.0.1", Kind::kStem, options.channels,
                    scaled(kStemChannels, options.width), options.stem_stride});
  int block = 1;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i, ++block) {
      add_block(layers, "features." + std::to_string(block) + ".conv.", stage.expansion,
                scaled(stage.channels, options.width), i == 0 ? stage.stride : 1);
    }
  }
  layers.push_back({"features.18.0", "features.18.1", Kind::kPointwise, layers.back().outputs,
                    mobilenet_v2_features(options)});
  return layers;
}

std::int64_t mobilenet_v2_parameter_count(const MobileNetV2Options& options) {
  std::int64_t count = (mobilenet_v2_features(options) + 1) * options.classes;
  for (const ConvLayer& layer : mobilenet_v2_layers(options)) {
    count += layer.outputs * (layer.inputs / layer.groups() * layer.kernel() * layer.kernel() + 2);
  }
  return count;
}

SidePadding side_padding(Padding padding, std::int64_t side, std::int64_t stride) {
  const bool shifted = padding == Padding::kSame && stride == 2 && side % 2 == 0;
  return {shifted ? 0 : 1, 1};
}

}  // namespace cistern::models
