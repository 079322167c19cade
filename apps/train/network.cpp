#include "apps/train/network.hpp"

#include "models/mnist_cnn.hpp"
#include "models/mobilenet_v2.hpp"

namespace cistern::train {
namespace {

using models::KerasAdam;
using models::LearnedState;
using models::ModelCard;
using models::NamedTensors;
using models::Weights;

at::Tensor copy_on_cpu(const at::Tensor& tensor) {
  return tensor.detach().to(tensor.options().device(at::kCPU), /*non_blocking=*/false, /*copy=*/true,
                            at::MemoryFormat::Contiguous);
}

bool is_statistic(const std::string& name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_var");
}

// Calls visit(name, parameter, its index) in the optimiser's order.
template <class Visit>
void visit_parameters(const torch::nn::Module& network, const Visit& visit) {
  std::size_t index = 0;
  for (const auto& item : network.named_parameters()) visit(item.key(), item.value(), index++);
}

template <class Visit>
void visit_statistics(const torch::nn::Module& network, const Visit& visit) {
  for (const auto& item : network.named_buffers()) {
    if (is_statistic(item.key())) visit(item.key(), item.value());
  }
}

}  // namespace

ModelCard mnist_card(const std::vector<std::string>& labels) {
  ModelCard card;
  card.model = models::kMnistCnnName;
  card.preprocessing = {models::kMnistSide, 1, {0.0}, {1.0}};
  card.labels = labels;
  return card;
}

std::shared_ptr<torch::nn::Module> make_network(const ModelCard& card, const at::Generator& generator) {
  if (card.model == models::kMnistCnnName) return models::MnistCnn(generator).ptr();
  return models::MobileNetV2(card.network, generator).ptr();
}

LearnedState initial_state(const ModelCard& card, const at::Generator& generator) {
  const auto network = make_network(card, generator);
  return take_state(*network, KerasAdam(network->parameters(), 0.0));
}

LearnedState state_from(const Weights& weights, const ModelCard& card, const at::Generator& generator) {
  const auto theirs = make_network(weights.card, generator), ours = make_network(card, generator);
  models::load_into(*theirs, weights);
  const Weights trained = models::weights_of(*theirs, weights.card);
  LearnedState state = take_state(*ours, KerasAdam(ours->parameters(), 0.0));
  for (NamedTensors* part : {&state.parameters, &state.statistics}) {
    for (auto& [name, tensor] : *part) {
      const auto found = trained.tensors.find(name);
      if (found != trained.tensors.end() && found->second.sizes() == tensor.sizes()) tensor = found->second;
    }
  }
  return state;
}

Weights weights_from(const LearnedState& state, const ModelCard& card) {
  Weights weights{card, state.parameters};
  weights.card.batch_norm = models::BatchNorm::kSeparate;
  weights.tensors.insert(state.statistics.begin(), state.statistics.end());
  return weights;
}

void put_state(const LearnedState& state, torch::nn::Module& network, KerasAdam& optimizer) {
  const torch::NoGradGuard no_grad;
  visit_parameters(network, [&](const std::string& name, at::Tensor parameter, std::size_t index) {
    parameter.copy_(state.parameters.at(name));
    optimizer.first_moments()[index].copy_(state.first_moments.at(name));
    optimizer.second_moments()[index].copy_(state.second_moments.at(name));
  });
  visit_statistics(network, [&](const std::string& name, at::Tensor statistic) {
    statistic.copy_(state.statistics.at(name));
  });
  optimizer.set_step_count(state.adam_steps);
}

LearnedState take_state(const torch::nn::Module& network, const KerasAdam& optimizer) {
  LearnedState state;
  visit_parameters(network, [&](const std::string& name, const at::Tensor& parameter, std::size_t index) {
    state.parameters[name] = copy_on_cpu(parameter);
    state.first_moments[name] = copy_on_cpu(optimizer.first_moments()[index]);
    state.second_moments[name] = copy_on_cpu(optimizer.second_moments()[index]);
  });
  visit_statistics(network, [&](const std::string& name, const at::Tensor& statistic) {
    state.statistics[name] = copy_on_cpu(statistic);
  });
  state.adam_steps = optimizer.step_count();
  return state;
}

}  // namespace cistern::train
