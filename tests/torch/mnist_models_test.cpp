// MnistCnn, KerasAdam and the two learners built of them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "apps/train/learner.hpp"
#include "apps/train/network.hpp"
#include "made_up_mnist.hpp"
#include "models/keras_adam.hpp"
#include "models/mnist_cnn.hpp"

namespace cistern::models {
namespace {

TEST(MnistCnn, HasThe54410ParametersOfTheKerasExample) {
  const MnistCnn model(seeded_generator(0));
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 54'410);
  EXPECT_EQ(model->named_parameters().keys(),
            (std::vector<std::string>{"conv.weight", "conv.bias", "dense.weight", "dense.bias"}));
  EXPECT_EQ(MnistCnn(seeded_generator(0))->forward(torch::zeros({3, 1, 28, 28})).sizes(),
            (at::IntArrayRef{3, 10}));
}

TEST(MnistCnn, StartsAsKerasDoesGlorotUniformWithZeroBiases) {
  const MnistCnn model(seeded_generator(0));
  const auto expect_uniform = [](const at::Tensor& weight, double bound, double tolerance) {
    EXPECT_LE(weight.abs().max().item<double>(), bound);
    EXPECT_GE(weight.abs().max().item<double>(), 0.97 * bound);
    EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), tolerance);
  };
  expect_uniform(model->conv->weight, 0.14213, 0.01);
  expect_uniform(model->dense->weight, 0.033278, 0.0003);
  EXPECT_EQ(model->conv->bias.abs().max().item<float>(), 0.0f);
  EXPECT_EQ(model->dense->bias.abs().max().item<float>(), 0.0f);
}

TEST(MnistCnn, TheGeneratorDecidesTheWeights) {
  const at::Tensor one = MnistCnn(seeded_generator(1))->dense->weight;
  EXPECT_TRUE(torch::equal(one, MnistCnn(seeded_generator(1))->dense->weight));
  EXPECT_FALSE(torch::equal(one, MnistCnn(seeded_generator(2))->dense->weight));
}

// The formula of Keras, in doubles: m and v, then lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + 1e-7).
double keras_adam(double start, const std::vector<double>& gradients, double rate) {
  double m = 0.0, v = 0.0, t = 0.0;
  for (const double gradient : gradients) {
    t += 1.0;
    m += (gradient - m) * 0.1;
    v += (gradient * gradient - v) * 0.001;
    start -=
        rate * std::sqrt(1.0 - std::pow(0.999, t)) / (1.0 - std::pow(0.9, t)) * m / (std::sqrt(v) + 1e-7);
  }
  return start;
}

TEST(KerasAdam, BothFormsFollowTheFormulaAlsoWhereEpsilonDecides) {
  // Gradients near 1e-6 tell epsilon hat from torch's epsilon: sqrt(v) is then about 3e-8 in the first step.
  const std::vector<std::vector<double>> sequences{
      {0.5, -0.25, 0.125}, {1e-6, 1e-6, -2e-6}, {-3.0, 0.0, 0.0}, {0.0, 0.0, 1e-3}};
  const auto size = static_cast<std::int64_t>(sequences.size());
  const torch::NoGradGuard no_grad;
  at::Tensor plain = torch::full({size}, 0.1), fused = plain.clone();
  KerasAdam plain_adam({plain}, 0.01), fused_adam({fused}, 0.01);
  for (std::size_t step = 0; step < 3; ++step) {
    const at::Tensor gradient = torch::empty({size});
    for (std::int64_t i = 0; i < size; ++i) gradient[i] = sequences[static_cast<std::size_t>(i)][step];
    plain.mutable_grad() = gradient;
    plain_adam.step();
    fused_adam.fused_step({gradient});
  }
  for (std::int64_t i = 0; i < size; ++i) {
    const double wanted = keras_adam(0.1, sequences[static_cast<std::size_t>(i)], 0.01);
    EXPECT_NEAR(plain[i].item<double>(), wanted, 1e-6);
    EXPECT_NEAR(fused[i].item<double>(), wanted, 1e-6);
  }
  EXPECT_EQ(fused_adam.step_count(), 3);
}

TEST(KerasAdam, DiffersFromTorchsAdamWhereTheGradientIsTiny) {
  at::Tensor ours = torch::zeros({1}), theirs = torch::zeros({1}, torch::requires_grad());
  KerasAdam keras({ours}, 0.01);
  torch::optim::Adam torch_adam({theirs}, torch::optim::AdamOptions(0.01).eps(1e-7));
  ours.mutable_grad() = theirs.mutable_grad() = torch::full({1}, 1e-6);
  const torch::NoGradGuard no_grad;
  keras.step();
  torch_adam.step();
  EXPECT_GT((ours - theirs).abs().item<double>(), 1e-3);
}

LearnedState mnist_start() {
  return train::initial_state(train::mnist_card({}), seeded_generator(0));
}

TEST(Learner, PlainAndTunedTrainTheSameNetwork) {
  const Mnist data = made_up_mnist(256, 64);
  const LearnedState start = mnist_start();
  const auto plain = train::make_plain_learner(data, start, at::kCPU),
             tuned = train::make_tuned_learner(data, start, 32, 2);
  const train::Epoch epoch{0, 1e-3, torch::randperm(256, seeded_generator(1), torch::kLong)};
  for (train::Learner* learner : {plain.get(), tuned.get()}) {
    learner->begin_epoch(epoch);
    for (std::int64_t first = 0; first < 256; first += 32) learner->train_batch(first, 32);
  }
  EXPECT_NEAR(plain->sums().loss, tuned->sums().loss, 1e-3 * plain->sums().loss);
  EXPECT_EQ(plain->sums().count, tuned->sums().count);
  EXPECT_NEAR(plain->evaluate().mean_loss(), tuned->evaluate().mean_loss(), 1e-3);
  const LearnedState left = plain->state(), right = tuned->state();
  EXPECT_EQ(left.adam_steps, right.adam_steps);
  EXPECT_EQ(left.parameters.size(), 4u);
  for (const auto& [name, parameter] : left.parameters) {
    EXPECT_TRUE(torch::allclose(parameter, right.parameters.at(name), 1e-3, 2e-4)) << name;
    EXPECT_TRUE(torch::allclose(left.first_moments.at(name), right.first_moments.at(name), 1e-2, 1e-5)) << name;
  }
}

TEST(Learner, StateCarriesOverToTheBit) {
  const Mnist data = made_up_mnist(96, 32);
  const LearnedState start = mnist_start();
  const train::Epoch epoch{0, 1e-3, torch::arange(96)};
  for (const bool fused : {false, true}) {
    const auto make = [&](const LearnedState& state) {
      auto learner = fused ? train::make_tuned_learner(data, state, 32, 2)
                           : train::make_plain_learner(data, state, at::kCPU);
      learner->begin_epoch(epoch);
      return learner;
    };
    const auto whole = make(start), first = make(start);
    for (const std::int64_t at : {0, 32, 64}) whole->train_batch(at, 32);
    first->train_batch(0, 32);
    const auto second = make(first->state());
    for (const std::int64_t at : {32, 64}) second->train_batch(at, 32);
    const LearnedState left = whole->state(), right = second->state();
    for (const auto& [name, parameter] : left.parameters) {
      EXPECT_TRUE(torch::equal(parameter, right.parameters.at(name))) << name;
      EXPECT_TRUE(torch::equal(left.second_moments.at(name), right.second_moments.at(name))) << name;
    }
  }
}

}  // namespace
}  // namespace cistern::models
