// Weights files, ours and from anybody: right ones come back as they were, wrong ones are one clear line.
#include "models/weights_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "cistern/observe/files.hpp"
#include "made_up_mnist.hpp"
#include "models/mnist_cnn.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/tensor_file.hpp"
#include "support/temporary_folder.hpp"

namespace cistern::models {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// A safetensors file of this header and that many bytes of zeros.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + std::string(data_bytes, '\0');
}

class WeightsFile : public ::testing::Test {
 protected:
  std::string file() const { return folder_.path("weights"); }

  template <class Read>
  std::string complaint(const Read& read) const {
    try {
      read(file());
    } catch (const FileError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_THAT(text, HasSubstr(file()));
      return text;
    }
    return "no complaint";
  }
  std::string complaint_of(const std::string& bytes) const {
    write_bytes(file(), bytes);
    return complaint([](const std::string& path) { read_tensor_file(path); });
  }
  std::string complaint_of_weights() const {
    return complaint([](const std::string& path) { read_weights(path); });
  }

  static ModelCard small_card() {
    ModelCard card;
    card.network = {0.35, 4, 3, Padding::kSymmetric, 1e-5, 2};
    card.preprocessing = {32, 3, {0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}};
    card.labels = {"one", "two \"quoted\"", "drei \xc3\xa4", ""};
    card.origin = "made up";
    card.source_sha256 = "";
    return card;
  }
  static Weights small_weights() {
    MobileNetV2 module(small_card().network, seeded_generator(3));
    return weights_of(*module, small_card());
  }
  /// Writes the weights' tensors with this change of the card's JSON.
  template <class Change>
  void write_with_card(const Change& change) const {
    const Weights weights = small_weights();
    write_weights(file(), weights);
    TensorFile content = read_tensor_file(file());
    json card = json::parse(content.metadata.at("cistern"));
    change(card);
    content.metadata["cistern"] = card.dump();
    write_tensor_file(file(), content);
  }

  TemporaryFolder folder_;
};

TEST_F(WeightsFile, GivesBackCardAndTensorsSeparateAndFolded) {
  for (const Weights& written : {small_weights(), folded(small_weights())}) {
    write_weights(file(), written);
    const Weights read = read_weights(file());
    EXPECT_EQ(read.card, written.card);
    ASSERT_EQ(read.tensors.size(), written.tensors.size());
    for (const auto& [name, tensor] : written.tensors)
      EXPECT_TRUE(torch::equal(read.tensors.at(name), tensor)) << name;
  }
}

TEST_F(WeightsFile, HoldsMnistCnnToo) {
  MnistCnn model(seeded_generator(1)), other(seeded_generator(2));
  ModelCard card;
  card.model = kMnistCnnName;
  card.preprocessing = {28, 1, {0.0}, {1.0}};
  for (char digit = '0'; digit <= '9'; ++digit) card.labels.emplace_back(1, digit);
  write_weights(file(), weights_of(*model, card));
  load_into(*other, read_weights(file()));
  const at::Tensor image = torch::rand({2, 1, 28, 28});
  EXPECT_TRUE(torch::equal(model->forward(image), other->forward(image)));
}

TEST_F(WeightsFile, FoldedWeightsComputeTheSameAndStayTrainable) {
  const Weights weights = small_weights();
  MobileNetV2 module(small_card().network, seeded_generator(1)),
      again(small_card().network, seeded_generator(1));
  load_into(*module, weights);
  load_into(*again, folded(weights));
  module->eval();
  again->eval();
  const at::Tensor image = torch::rand({2, 3, 32, 32});
  EXPECT_LE((module->forward(image) - again->forward(image)).abs().max().item<float>(), 1e-5f);
  again->forward(image).sum().backward();
  EXPECT_TRUE(again->named_parameters()["features.0.1.bias"].grad().defined());
}

TEST_F(WeightsFile, AModuleOfAnotherShapeIsRefusedByTheNameOfTheTensor) {
  MobileNetV2Options options = small_card().network;
  options.classes = 5;
  MobileNetV2 module(options, seeded_generator(1));
  try {
    load_into(*module, small_weights());
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("classifier.1"));
  }
}

TEST_F(WeightsFile, MissingUnknownAndMisshapenTensorsAreNamed) {
  write_weights(file(), small_weights());
  const TensorFile good = read_tensor_file(file());
  const char* name = "features.3.conv.1.0.weight";

  TensorFile content = good;
  content.tensors.erase(name);
  write_tensor_file(file(), content);
  EXPECT_THAT(complaint_of_weights(), HasSubstr(std::string("lacks the tensor ") + name));

  content = good;
  content.tensors[name] = torch::zeros({48, 1, 3, 1});
  write_tensor_file(file(), content);
  EXPECT_THAT(complaint_of_weights(), ::testing::AllOf(HasSubstr(name), HasSubstr("[48, 1, 3, 1]")));

  content = good;
  content.tensors[name] = content.tensors[name].to(torch::kLong);
  write_tensor_file(file(), content);
  EXPECT_THAT(complaint_of_weights(), ::testing::AllOf(HasSubstr(name), HasSubstr("F32")));

  content = good;
  content.tensors["features.19.weight"] = torch::zeros({1});
  write_tensor_file(file(), content);
  EXPECT_THAT(complaint_of_weights(), HasSubstr("features.19.weight"));

  content = good;
  content.tensors[name] = torch::full_like(content.tensors[name], NAN);
  write_tensor_file(file(), content);
  EXPECT_THAT(complaint_of_weights(), ::testing::AllOf(HasSubstr(name), HasSubstr("not a number")));
}

TEST_F(WeightsFile, AKeyOfTheCardThatIsMissingOrImpossibleIsNamed) {
  for (const char* key : {"model", "width", "classes", "channels", "padding", "epsilon", "stem_stride",
                          "batch_norm", "preprocessing", "labels", "origin", "source_sha256"}) {
    write_with_card([&](json& card) { card.erase(key); });
    EXPECT_THAT(complaint_of_weights(), HasSubstr("'" + std::string(key) + "'"));
  }
  const std::pair<const char*, json> impossible[] = {{"model", "resnet50"},
                                                     {"model", 7},
                                                     {"width", 0},
                                                     {"width", 1e300},
                                                     {"width", "1.0"},
                                                     {"classes", -1},
                                                     {"classes", 3.5},
                                                     {"classes", 1e18},
                                                     {"channels", 0},
                                                     {"padding", "valid"},
                                                     {"epsilon", 0},
                                                     {"stem_stride", 3},
                                                     {"batch_norm", "in between"},
                                                     {"labels", json::array({"one"})},
                                                     {"labels", json::array({1, 2, 3, 4})},
                                                     {"preprocessing", 3}};
  for (const auto& [key, value] : impossible) {
    write_with_card([&, &key = key, &value = value](json& card) { card[key] = value; });
    const std::string inner = std::string(key) == "preprocessing" ? "size" : key;
    EXPECT_THAT(complaint_of_weights(), HasSubstr("'" + inner + "'")) << value;
  }
  for (const char* key : {"size", "channels", "mean", "std"}) {
    write_with_card([&](json& card) { card["preprocessing"].erase(key); });
    EXPECT_THAT(complaint_of_weights(), HasSubstr("'" + std::string(key) + "'"));
  }
  write_with_card([](json& card) { card["preprocessing"]["std"] = {0.5, 0.0, 0.5}; });
  EXPECT_THAT(complaint_of_weights(), HasSubstr("'std'"));
  write_with_card([](json& card) { card["preprocessing"]["mean"] = {0.5}; });
  EXPECT_THAT(complaint_of_weights(), HasSubstr("'mean'"));
  write_with_card([](json& card) { card["something new"] = 1; });
  EXPECT_EQ(complaint_of_weights(), "no complaint");
}

TEST_F(WeightsFile, WithoutACardOrWithOneThatIsNoJsonIsRefused) {
  write_tensor_file(file(), {{{"a", torch::zeros({1})}}, {}});
  EXPECT_THAT(complaint_of_weights(), HasSubstr("tools/convert"));
  write_tensor_file(file(), {{{"a", torch::zeros({1})}}, {{"cistern", "{\"model\":"}}});
  EXPECT_THAT(complaint_of_weights(), HasSubstr("no JSON object"));
}

TEST_F(WeightsFile, WhatWouldBeRefusedIsNotWritten) {
  Weights weights = small_weights();
  weights.card.labels.pop_back();
  EXPECT_THROW(write_weights(file(), weights), FileError);
  weights = small_weights();
  weights.tensors.erase("classifier.1.bias");
  EXPECT_THROW(write_weights(file(), weights), FileError);
  EXPECT_EQ(folder_.file_count(), 0);
}

TEST_F(WeightsFile, AWrongSha256IsSaidToBeDamage) {
  write_weights(file(), small_weights());
  std::string bytes = read_bytes(file());
  bytes.back() ^= 1;
  EXPECT_THAT(complaint_of(bytes), HasSubstr("sha256"));
}

TEST_F(WeightsFile, HostileHeadersAreOneLineAndTakeNoMemory) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const struct {
    std::string header;
    const char* complaint;
  } cases[] = {
      {"", "no safetensors"},
      {"[]", "no safetensors"},
      {"{", "no safetensors"},
      {std::string(200'000, '['), "no safetensors"},
      {R"({"a":1})", "header"},
      {R"({"a":{}})", "header"},
      {R"({"__metadata__":[]})", "header"},
      {R"({"__metadata__":{"a":1}})", "header"},
      {entry("\"F16\"", "[4]", "[0,8]"), "type"},
      {entry("5", "[4]", "[0,16]"), "type"},
      {entry("\"F32\"", "4", "[0,16]"), "header"},
      {entry("\"F32\"", "[4]", "[0]"), "header"},
      {entry("\"F32\"", "[4]", "[0,16,16]"), "header"},
      {entry("\"F32\"", "[4]", "[\"0\",16]"), "header"},
      {entry("\"F32\"", "[-4]", "[0,16]"), "shape"},
      {entry("\"F32\"", "[4.5]", "[0,18]"), "shape"},
      {entry("\"F32\"", "[1e300]", "[0,16]"), "shape"},
      {entry("\"F32\"", "[4]", "[-16,0]"), "header"},
      {entry("\"F32\"", "[4]", "[1e300,1e301]"), "header"},
      {entry("\"F32\"", "[4]", "[16,0]"), "shape"},
      {entry("\"F32\"", "[4]", "[0,18446744073709551615]"), "shape"},
      {entry("\"F32\"", "[4]", "[18446744073709551600,18446744073709551616]"), "header"},
      {entry("\"F32\"", "[4611686018427387904]", "[0,0]"), "shape"},
      {entry("\"F32\"", "[4611686018427387905]", "[0,4]"), "shape"},
      {entry("\"F32\"", "[0,9223372036854775807,9223372036854775807]", "[0,0]"), "shape"},
      {entry("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "shape"},
      {entry("\"F32\"", "[1048576]", "[0,4194304]"), "cut short"},
      {entry("\"F32\"", "[4]", "[4,20]"), "overlap"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})",
       "overlap"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
       "overlap"},
  };
  for (const auto& [header, wanted] : cases) {
    EXPECT_THAT(complaint_of(file_of(header, 32)), HasSubstr(wanted)) << header.substr(0, 120);
  }
}

TEST_F(WeightsFile, BytesThatBelongToNoTensorAreRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  EXPECT_EQ(complaint_of(file_of(header, 16)), "no complaint");
  EXPECT_THAT(complaint_of(file_of(header, 20)), HasSubstr("belong"));
  EXPECT_THAT(complaint_of(file_of(header, 12)), HasSubstr("cut short"));
}

TEST_F(WeightsFile, LengthsBeyondTheFileAreNotBelieved) {
  for (const std::uint64_t length : {std::uint64_t{1} << 20, std::uint64_t{1} << 40, UINT64_MAX}) {
    std::string bytes = file_of("{}", 0);
    std::memcpy(bytes.data(), &length, sizeof length);
    EXPECT_NE(complaint_of(bytes), "no complaint") << length;
  }
}

TEST_F(WeightsFile, AFolderAndAMissingFileAreSaidToBeSo) {
  EXPECT_THAT(complaint_of_weights(), HasSubstr("No such file"));
  std::filesystem::create_directory(file());
  EXPECT_THAT(complaint_of_weights(), HasSubstr("not a file"));
}

}  // namespace
}  // namespace cistern::models
