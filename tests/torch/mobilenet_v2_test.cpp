// MobileNetV2 as a module and for inference: against the published network, and against each other.
#include "models/mobilenet_v2.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "made_up_mnist.hpp"
#include "models/mobilenet_v2_inference.hpp"
#include "shared_mobilenet.hpp"

namespace cistern::models {
namespace {

MobileNetV2 loaded_module(const Weights& weights) {
  MobileNetV2 module(weights.card.network, seeded_generator(1));
  load_into(*module, weights);
  module->eval();
  return module;
}

float difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<float>();
}

class PublishedNetwork : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_for_published_weights(); !missing.empty())
      GTEST_SKIP() << missing;
    at::set_num_threads(GetParam());
  }
  static const at::Tensor& images() {
    static const at::Tensor images = reference_images();
    return images;
  }
  static const at::Tensor& expected() {
    static const at::Tensor logits = reference_logits();
    return logits;
  }
};

TEST_P(PublishedNetwork, TheModuleComputesTheReferenceLogitsAloneAndInABatch) {
  const torch::NoGradGuard no_grad;
  MobileNetV2 module = loaded_module(published_weights());
  EXPECT_LE(difference(module->forward(images()), expected()), 1e-4f);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_LE(difference(module->forward(images().narrow(0, i, 1)), expected().narrow(0, i, 1)), 1e-4f) << i;
  }
}

TEST_P(PublishedNetwork, TheInferenceFormComputesTheReferenceLogitsAloneAndInABatch) {
  MobileNetV2Inference network(published_weights(), GetParam());
  EXPECT_LE(difference(network.logits(images()), expected()), 1e-4f);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_LE(difference(network.logits(images().narrow(0, i, 1)), expected().narrow(0, i, 1)), 1e-4f) << i;
  }
}

TEST_P(PublishedNetwork, BothFormsGiveThePublishedProbabilitiesAndTheirOrder) {
  const torch::NoGradGuard no_grad;
  MobileNetV2 module = loaded_module(published_weights());
  MobileNetV2Inference network(published_weights(), GetParam());
  for (const char* number : {"0", "1", "2"}) {
    const auto folder = shared_mobilenet() / "test_vectors";
    const at::Tensor input = read_npy(folder / ("input_" + std::string(number) + ".npy"))
                                 .reshape({1, 224, 224, 3})
                                 .permute({0, 3, 1, 2});
    const at::Tensor wanted =
        read_npy(folder / ("softmax_" + std::string(number) + ".npy")).reshape({1, 1001});
    for (const at::Tensor& logits : {module->forward(input), network.logits(input)}) {
      const at::Tensor probabilities = logits.softmax(1);
      EXPECT_LE(difference(probabilities, wanted), 3e-3f) << number;
      EXPECT_TRUE(torch::equal(std::get<1>(probabilities.topk(5)), std::get<1>(wanted.topk(5)))) << number;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, PublishedNetwork, ::testing::Values(1, 2));

/// Weights whose batch norms do something.
Weights made_up_weights(const MobileNetV2Options& options, std::int64_t side) {
  const torch::NoGradGuard no_grad;
  at::Generator generator = seeded_generator(5);
  MobileNetV2 module(options, generator);
  for (auto& item : module->named_parameters()) {
    if (item.value().dim() == 1) item.value().uniform_(0.5, 1.5, generator);
  }
  for (auto& item : module->named_buffers()) {
    if (item.key().ends_with("running_mean")) item.value().uniform_(-0.5, 0.5, generator);
    if (item.key().ends_with("running_var")) item.value().uniform_(0.5, 2.0, generator);
  }
  ModelCard card;
  card.network = options;
  card.preprocessing.size = side;
  card.preprocessing.channels = options.channels;
  card.preprocessing.mean.assign(static_cast<std::size_t>(options.channels), 0.5);
  card.preprocessing.std.assign(static_cast<std::size_t>(options.channels), 0.5);
  card.labels.assign(static_cast<std::size_t>(options.classes), "a label");
  return weights_of(*module, card);
}

struct Variant {
  MobileNetV2Options options;
  std::int64_t rows, columns;
};

class Variants : public ::testing::TestWithParam<Variant> {};

TEST_P(Variants, BothFormsAgreeOnAnySizeWidthAndPaddingWithAnyNumberOfThreads) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const auto& [options, rows, columns] = GetParam();
  const Weights weights = made_up_weights(options, rows);
  const at::Tensor images =
      torch::empty({2, options.channels, rows, columns}).uniform_(-1, 1, seeded_generator(6));
  const at::Tensor expected = loaded_module(weights)->forward(images);
  ASSERT_GT(expected.std().item<float>(), 1e-3f);
  at::Tensor of_one_thread;
  for (const int threads : {1, 2, 3, 7}) {
    MobileNetV2Inference network(weights, threads);
    const at::Tensor logits = network.logits(images);
    EXPECT_LE(difference(logits, expected), 1e-4f * expected.abs().max().item<float>())
        << threads << " threads";
    if (!of_one_thread.defined()) of_one_thread = logits;
    EXPECT_TRUE(torch::equal(logits, of_one_thread)) << threads << " threads";
    EXPECT_TRUE(torch::equal(network.logits(images.contiguous(at::MemoryFormat::ChannelsLast)), logits));
  }
}

MobileNetV2Options options_of(double width, std::int64_t classes, std::int64_t channels, Padding padding,
                              std::int64_t stem_stride) {
  return {width, classes, channels, padding, 1e-3, stem_stride};
}

INSTANTIATE_TEST_SUITE_P(Some, Variants,
                         ::testing::Values(Variant{options_of(1.0, 1001, 3, Padding::kSame, 2), 96, 96},
                                           Variant{options_of(1.0, 1000, 3, Padding::kSymmetric, 2), 97, 64},
                                           Variant{options_of(0.35, 10, 1, Padding::kSame, 1), 28, 28},
                                           Variant{options_of(0.5, 17, 3, Padding::kSymmetric, 1), 32, 20},
                                           Variant{options_of(0.75, 5, 3, Padding::kSame, 2), 33, 47},
                                           Variant{options_of(1.4, 8, 3, Padding::kSame, 2), 50, 35},
                                           Variant{options_of(0.35, 3, 4, Padding::kSame, 2), 1, 1},
                                           Variant{options_of(0.35, 3, 3, Padding::kSymmetric, 2), 2, 5}));

TEST(MobileNetV2Module, HasTheKnownNumberOfParametersUnderTorchvisionsNames) {
  MobileNetV2Options options;
  EXPECT_EQ(mobilenet_v2_parameter_count(options), 3'506'153);
  options.classes = 1000;
  EXPECT_EQ(mobilenet_v2_parameter_count(options), 3'504'872);
  MobileNetV2 module(options, seeded_generator(1));
  std::int64_t count = 0;
  for (const at::Tensor& parameter : module->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 3'504'872);
  const auto parameters = module->named_parameters();
  EXPECT_EQ(parameters["features.1.conv.1.weight"].sizes(), (at::IntArrayRef{16, 32, 1, 1}));
  EXPECT_EQ(parameters["features.17.conv.1.0.weight"].sizes(), (at::IntArrayRef{960, 1, 3, 3}));
  EXPECT_EQ(parameters["classifier.1.bias"].sizes(), (at::IntArrayRef{1000}));
  EXPECT_EQ(module->named_buffers()["features.18.1.running_var"].sizes(), (at::IntArrayRef{1280}));
}

TEST(MobileNetV2Module, TheSameSeedGivesTheSameWeightsAndAnotherSeedOthers) {
  MobileNetV2Options options = options_of(0.35, 10, 1, Padding::kSame, 1);
  MobileNetV2 first(options, seeded_generator(1)), again(options, seeded_generator(1)),
      other(options, seeded_generator(2));
  const char* name = "features.5.conv.2.weight";
  EXPECT_TRUE(torch::equal(first->named_parameters()[name], again->named_parameters()[name]));
  EXPECT_FALSE(torch::equal(first->named_parameters()[name], other->named_parameters()[name]));
}

TEST(MobileNetV2Module, LearnsAFewPicturesByHeart) {
  at::set_num_threads(1);
  torch::manual_seed(4);
  MobileNetV2 module(options_of(0.35, 10, 1, Padding::kSame, 1), seeded_generator(4));
  const LabelledImages data = made_up_images(16, 9);
  torch::optim::Adam optimizer(module->parameters(), torch::optim::AdamOptions(3e-3));
  float first_loss = 0.0f, loss_now = 0.0f;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = torch::nn::functional::cross_entropy(module->forward(data.images), data.labels);
    loss.backward();
    optimizer.step();
    loss_now = loss.item<float>();
    if (step == 0) first_loss = loss_now;
  }
  EXPECT_LT(loss_now, 0.5f * first_loss);
}

TEST(MobileNetV2Inference, RefusesWhatIsNoBatchOfItsImages) {
  MobileNetV2Inference network(made_up_weights(options_of(0.35, 3, 3, Padding::kSame, 2), 32), 1);
  EXPECT_THROW(network.logits(torch::zeros({3, 32, 32})), std::invalid_argument);
  EXPECT_THROW(network.logits(torch::zeros({1, 1, 32, 32})), std::invalid_argument);
  EXPECT_THROW(network.logits(torch::zeros({0, 3, 32, 32})), std::invalid_argument);
  EXPECT_THROW(network.logits(torch::zeros({1, 3, 32, 32}, torch::kDouble)), std::invalid_argument);
}

}  // namespace
}  // namespace cistern::models
