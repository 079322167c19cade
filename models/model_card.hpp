// The card of a weights file: which network they are of, what it wants to be fed, its labels. Without torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/mobilenet_v2_layers.hpp"

namespace cistern::models {

/// From a picture to what the network takes: side x side pixels, and (pixel / 255 - mean) / std for each
/// channel.
struct Preprocessing {
  std::int64_t size = 224;
  std::int64_t channels = 3;
  std::vector<double> mean = {0.5, 0.5, 0.5};  ///< With std 0.5: values from -1 to 1.
  std::vector<double> std = {0.5, 0.5, 0.5};

  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

enum class BatchNorm : std::uint8_t {
  kFolded,    ///< Into weight and bias of the convolution before it; fewer tensors, for inference.
  kSeparate,  ///< As trained.
};

inline constexpr const char* kMobileNetV2Name = "mobilenet_v2";
inline constexpr const char* kMnistCnnName = "mnist_cnn";

struct ModelCard {
  std::string model = kMobileNetV2Name;
  MobileNetV2Options network;                   ///< Of mobilenet_v2 only.
  BatchNorm batch_norm = BatchNorm::kSeparate;  ///< Of mobilenet_v2 only.
  Preprocessing preprocessing;
  std::vector<std::string> labels;  ///< One for each class.
  std::string origin;               ///< Where the weights come from, and their licence.
  std::string source_sha256;        ///< Of the file they were converted from; empty where trained here.

  friend bool operator==(const ModelCard&, const ModelCard&) = default;
};

/// As JSON, and back. Keys it does not know are ignored. Fails: throws std::invalid_argument with one
/// sentence that names the key that is missing or has a value it cannot have.
std::string card_text(const ModelCard& card);
ModelCard parse_card(const std::string& text);

}  // namespace cistern::models
