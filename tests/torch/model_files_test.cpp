// What models read and write: the shipped MNIST, tensor files, checkpoints. Wrong input is in
// tests/cli/train_test.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "apps/train/network.hpp"
#include "cistern/observe/files.hpp"
#include "made_up_mnist.hpp"
#include "models/checkpoint.hpp"
#include "models/tensor_file.hpp"
#include "support/temporary_folder.hpp"

namespace cistern::models {
namespace {

TEST(IdxDataset, ReadsTheShippedMnist) {
  const Mnist mnist = load_mnist(CISTERN_SOURCE_DIR "/data/mnist");
  EXPECT_EQ(mnist.train.images.sizes(), (at::IntArrayRef{60'000, 1, 28, 28}));
  EXPECT_EQ(mnist.test.images.sizes(), (at::IntArrayRef{10'000, 1, 28, 28}));
  EXPECT_EQ(mnist.train.images.min().item<float>(), 0.0f);
  EXPECT_EQ(mnist.train.images.max().item<float>(), 1.0f);
  EXPECT_NEAR(mnist.train.images.mean().item<float>(), 0.1307f,
              1e-4f);  // The mean everybody normalises with.
  const at::Tensor first = mnist.train.labels.narrow(0, 0, 10);
  EXPECT_TRUE(torch::equal(first, torch::tensor({5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, torch::kLong)));
}

TEST(TensorFile, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  const TensorFile written{{{"a", torch::randn({3, 0, 2})},
                            {"b", torch::randint(0, 255, {7}, torch::kByte)},
                            {"c", torch::arange(5)},
                            {"scalar", torch::full({}, 2.5f)}},
                           {{"key", "value \"quoted\" \n"}}};
  write_tensor_file(folder.path("file"), written);
  write_tensor_file(folder.path("file"), written);  // Also over an old one.
  EXPECT_EQ(folder.file_count(), 1);
  const TensorFile read = read_tensor_file(folder.path("file"));
  EXPECT_EQ(read.metadata.at("key"), written.metadata.at("key"));
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    EXPECT_TRUE(torch::equal(read.tensors.at(name), tensor)) << name;
    EXPECT_EQ(read.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
  }
}

TEST(TensorFile, EveryPrefixOfAFileIsRefusedAndSoIsEveryFlippedByteOfTheData) {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  write_tensor_file(path, {{{"a", torch::arange(8)}}, {}});
  const std::string whole = read_bytes(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_bytes(path, whole.substr(0, length));
    EXPECT_THROW(read_tensor_file(path), FileError) << length;
  }
  for (std::size_t at = whole.size() - 64; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 0x10;
    write_bytes(path, changed);
    EXPECT_THROW(read_tensor_file(path), FileError) << at;
  }
}

TEST(Checkpoint, HoldsEverything) {
  const TemporaryFolder folder;
  at::Generator generator = seeded_generator(11);
  Checkpoint saved;
  ModelCard card;
  card.network.width = 0.35, card.network.classes = 3;
  card.labels = {"a", "b", "c"};
  saved.setup = {"plain", 48, 0.1 + 0.2, UINT64_MAX, 3, 0.7, "flip", card};
  saved.learned = train::initial_state(card, generator);
  saved.learned.first_moments.at("features.0.0.weight").normal_();
  saved.learned.statistics.at("features.0.1.running_mean").normal_();
  saved.learned.adam_steps = 77;
  saved.generator_state = generator.get_state();
  saved.epochs_done = 4;
  saved.batches_done = 19;
  saved.sums = {1.0 / 3.0, 5, 912};
  save_checkpoint(folder.path(""), saved);

  const Checkpoint loaded = load_checkpoint(folder.path(""));
  EXPECT_EQ(loaded.setup, saved.setup);
  EXPECT_TRUE(torch::equal(loaded.generator_state, saved.generator_state));
  EXPECT_EQ(loaded.learned.adam_steps, 77);
  EXPECT_EQ(loaded.epochs_done, 4);
  EXPECT_EQ(loaded.batches_done, 19);
  EXPECT_EQ(loaded.sums.loss, saved.sums.loss);
  EXPECT_EQ(loaded.sums.correct, 5);
  EXPECT_EQ(loaded.sums.count, 912);
  EXPECT_NO_THROW(check_tensors(folder.path(""), loaded.learned, saved.learned));
  EXPECT_NO_THROW(check_tensors(folder.path(""), saved.learned, loaded.learned));
  for (const auto& [name, parameter] : saved.learned.parameters) {
    EXPECT_TRUE(torch::equal(loaded.learned.parameters.at(name), parameter)) << name;
    EXPECT_TRUE(torch::equal(loaded.learned.first_moments.at(name), saved.learned.first_moments.at(name))) << name;
    EXPECT_TRUE(torch::equal(loaded.learned.second_moments.at(name), saved.learned.second_moments.at(name))) << name;
  }
  for (const auto& [name, statistic] : saved.learned.statistics) {
    EXPECT_TRUE(torch::equal(loaded.learned.statistics.at(name), statistic)) << name;
  }
}

}  // namespace
}  // namespace cistern::models
