// Trained weights in one file: tensors and a card that says what they are of and what they want to be fed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/model_card.hpp"

namespace torch::nn {
class Module;
}

namespace cistern::models {

/// Float CPU tensors by torchvision's names.
struct Weights {
  ModelCard card;
  std::map<std::string, at::Tensor> tensors;
};

/// Name and shape of every tensor that weights with this card have.
std::map<std::string, std::vector<std::int64_t>> expected_tensors(const ModelCard& card);

/// Fails with FileError, one line that names what is wrong: as read_tensor_file does, or a key of the card
/// that is missing or has a value it cannot have, a tensor that is missing, unknown, of another type or
/// shape, or not finite.
Weights read_weights(const std::filesystem::path& file);

/// Atomic, as write_tensor_file. Fails with FileError: not writable, or weights that read_weights would
/// refuse.
void write_weights(const std::filesystem::path& file, const Weights& weights);

/// Copies the weights into a MobileNetV2 made with weights.card.network, or an MnistCnn, wherever it is.
/// Folded weights become a batch norm that changes nothing but adds the bias. Whoever trains on from folded
/// weights should leave batch norm in eval(): the statistics they were trained with are gone. Fails: throws
/// std::invalid_argument where a tensor of the module has no counterpart of its shape.
void load_into(torch::nn::Module& module, const Weights& weights);

/// The module's present weights, on the CPU, with separate batch norm, whatever the card says of that.
Weights weights_of(const torch::nn::Module& module, const ModelCard& card);

/// The same network with every batch norm folded into its convolution, in double precision.
Weights folded(const Weights& weights);

}  // namespace cistern::models
