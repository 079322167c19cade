// MobileNetV2 as a list of convolutions, without torch: what the module, the inference form and the weights'
// check share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cistern::models {

/// What surrounds an image where a convolution of stride 2 looks beyond it.
enum class Padding : std::uint8_t {
  kSame,  ///< TensorFlow's "SAME": of an even side nothing before and one after, of an odd side one each.
  kSymmetric,  ///< torchvision's: one before and one after.
};

struct MobileNetV2Options {
  double width = 1.0;           ///< Multiplies all channels, rounded to multiples of 8.
  std::int64_t classes = 1001;  ///< 1001 is ImageNet with a background class before the thousand.
  std::int64_t channels = 3;    ///< Of the input.
  Padding padding = Padding::kSame;
  double epsilon = 1e-3;         ///< Of batch norm: 1e-3 in TensorFlow, 1e-5 in torchvision.
  std::int64_t stem_stride = 2;  ///< 1 is ours, for pictures of about 32 pixels.

  friend bool operator==(const MobileNetV2Options&, const MobileNetV2Options&) = default;
};

/// One convolution with its batch norm, named as in torchvision's state_dict.
struct ConvLayer {
  enum class Kind : std::uint8_t { kStem, kDepthwise, kPointwise };
  enum class Residual : std::uint8_t {
    kNone,
    kOpens,   ///< Its input is added to the output of the next layer that closes.
    kCloses,  ///< It adds what the last opening layer took in.
  };

  std::string name;        ///< "features.1.conv.0.0": .weight, and .bias where batch norm is folded into it.
  std::string batch_norm;  ///< "features.1.conv.0.1": .weight, .bias, .running_mean, .running_var
  Kind kind = Kind::kPointwise;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t stride = 1;
  bool relu6 = true;
  Residual residual = Residual::kNone;

  std::int64_t kernel() const noexcept { return kind == Kind::kPointwise ? 1 : 3; }
  std::int64_t groups() const noexcept { return kind == Kind::kDepthwise ? inputs : 1; }
};

/// In the order they run; after the last come the mean over the image and the classifier.
std::vector<ConvLayer> mobilenet_v2_layers(const MobileNetV2Options& options);

/// What the classifier takes in: 1280, or more where width is above 1.
std::int64_t mobilenet_v2_features(const MobileNetV2Options& options);

/// Trainable parameters: 3,506,153 for the default options.
std::int64_t mobilenet_v2_parameter_count(const MobileNetV2Options& options);

/// Zeros around one side of an image, for kernel 3.
struct SidePadding {
  std::int64_t before;
  std::int64_t after;
};
SidePadding side_padding(Padding padding, std::int64_t side, std::int64_t stride);

}  // namespace cistern::models
