// Networks by their card, and what they have learned as named tensors.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "models/checkpoint.hpp"
#include "models/keras_adam.hpp"

namespace cistern::train {

/// What a card says of MnistCnn fed with 0..1.
models::ModelCard mnist_card(const std::vector<std::string>& labels);

/// An MnistCnn or a MobileNetV2, as the card says, with initial weights.
std::shared_ptr<torch::nn::Module> make_network(const models::ModelCard& card,
                                                const at::Generator& generator);

/// The initial state of a seed, moments zero.
models::LearnedState initial_state(const models::ModelCard& card, const at::Generator& generator);

/// The same, but all that `weights` have in the network's shapes is theirs: a classifier for other classes is
/// new.
models::LearnedState state_from(const models::Weights& weights, const models::ModelCard& card,
                                const at::Generator& generator);

models::Weights weights_from(const models::LearnedState& state, const models::ModelCard& card);

/// Between a state and a network with the optimiser of its parameters. Requires the state to be of that
/// network.
void put_state(const models::LearnedState& state, torch::nn::Module& network, models::KerasAdam& optimizer);
models::LearnedState take_state(const torch::nn::Module& network, const models::KerasAdam& optimizer);

}  // namespace cistern::train
