#include "models/model_card.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace cistern::models {
namespace {

using nlohmann::json;

constexpr const char* kPaddingNames[] = {"same", "symmetric"};
constexpr const char* kBatchNormNames[] = {"folded", "separate"};

[[noreturn]] void fail(const std::string& key, const std::string& wanted) {
  throw std::invalid_argument("its card lacks '" + key + "', or has there what is not " + wanted);
}

constexpr std::int64_t kDigits = 10;  // What mnist_cnn tells apart.

struct Span {
  double least, most;
};

const json& member(const json& object, const std::string& key, const std::string& wanted) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) fail(key, wanted);
  return *found;
}

double real(const json& value, const std::string& key, Span span) {
  const std::string wanted = "a number from " + json(span.least).dump() + " to " + json(span.most).dump();
  if (!value.is_number()) fail(key, wanted);
  const double number = value.get<double>();
  if (!(number >= span.least && number <= span.most)) fail(key, wanted);
  return number;
}

std::int64_t whole(const json& object, const std::string& key, Span span) {
  const double number = real(member(object, key, "a number"), key, span);
  if (number != std::floor(number)) fail(key, "a whole number");
  return static_cast<std::int64_t>(number);
}

std::string words(const json& object, const std::string& key) {
  const json& value = member(object, key, "text");
  if (!value.is_string()) fail(key, "text");
  return value.get<std::string>();
}

// An enum by the names of its values, in their order.
template <class Enum, std::size_t Count>
Enum one_of(const json& object, const std::string& key, const char* const (&names)[Count]) {
  const std::string word = words(object, key);
  std::string wanted;
  for (std::size_t i = 0; i < Count; ++i) {
    if (word == names[i]) return static_cast<Enum>(i);
    wanted += (i == 0 ? "'" : " or '") + std::string(names[i]) + "'";
  }
  fail(key, wanted);
}

std::vector<double> each_channel(const json& object, const std::string& key, std::int64_t channels,
                                 Span span) {
  const std::string wanted = "a list of as many numbers as channels";
  const json& list = member(object, key, wanted);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(channels)) fail(key, wanted);
  std::vector<double> values;
  for (const json& value : list) values.push_back(real(value, key, span));
  return values;
}

Preprocessing parse_preprocessing(const json& object) {
  Preprocessing parsed;
  parsed.size = whole(object, "size", {1, 4096});
  parsed.channels = whole(object, "channels", {1, 4});
  parsed.mean = each_channel(object, "mean", parsed.channels, {-1000, 1000});
  parsed.std = each_channel(object, "std", parsed.channels, {1e-6, 1000});
  return parsed;
}

MobileNetV2Options parse_network(const json& card) {
  MobileNetV2Options parsed;
  parsed.width = real(member(card, "width", "a number"), "width", {0.05, 4.0});
  parsed.classes = whole(card, "classes", {1, 100'000});
  parsed.channels = whole(card, "channels", {1, 4});
  parsed.padding = one_of<Padding>(card, "padding", kPaddingNames);
  parsed.epsilon = real(member(card, "epsilon", "a number"), "epsilon", {1e-12, 0.5});
  parsed.stem_stride = whole(card, "stem_stride", {1, 2});
  return parsed;
}

std::vector<std::string> parse_labels(const json& card, std::int64_t classes) {
  const std::string wanted = "a list of " + std::to_string(classes) + " texts, one for each class";
  const json& list = member(card, "labels", wanted);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(classes)) fail("labels", wanted);
  std::vector<std::string> labels;
  for (const json& label : list) {
    if (!label.is_string()) fail("labels", wanted);
    labels.push_back(label.get<std::string>());
    const bool one_line = std::none_of(labels.back().begin(), labels.back().end(),
                                       [](char c) { return c == '\n' || c == '\r'; });
    if (!one_line) fail("labels", wanted + ", of one line");
  }
  return labels;
}

}  // namespace

std::string card_text(const ModelCard& card) {
  json text = {{"model", card.model},
               {"preprocessing",
                {{"size", card.preprocessing.size},
                 {"channels", card.preprocessing.channels},
                 {"mean", card.preprocessing.mean},
                 {"std", card.preprocessing.std}}},
               {"labels", card.labels},
               {"origin", card.origin},
               {"source_sha256", card.source_sha256}};
  if (card.model == kMobileNetV2Name) {
    const MobileNetV2Options& network = card.network;
    text["width"] = network.width;
    text["classes"] = network.classes;
    text["channels"] = network.channels;
    text["padding"] = kPaddingNames[static_cast<int>(network.padding)];
    text["epsilon"] = network.epsilon;
    text["stem_stride"] = network.stem_stride;
    text["batch_norm"] = kBatchNormNames[static_cast<int>(card.batch_norm)];
  }
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

ModelCard parse_card(const std::string& text) {
  const json card = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!card.is_object()) throw std::invalid_argument("its card is no JSON object");
  ModelCard parsed;
  parsed.model = words(card, "model");
  parsed.preprocessing = parse_preprocessing(member(card, "preprocessing", "an object"));
  std::int64_t classes = kDigits;
  std::int64_t channels = 1;
  if (parsed.model == kMobileNetV2Name) {
    parsed.network = parse_network(card);
    parsed.batch_norm = one_of<BatchNorm>(card, "batch_norm", kBatchNormNames);
    classes = parsed.network.classes;
    channels = parsed.network.channels;
  } else if (parsed.model != kMnistCnnName) {
    fail("model", std::string("'") + kMobileNetV2Name + "' or '" + kMnistCnnName + "'");
  }
  if (parsed.preprocessing.channels != channels) {
    fail("channels", "what the network takes, " + std::to_string(channels) + ", in 'preprocessing'");
  }
  parsed.labels = parse_labels(card, classes);
  parsed.origin = words(card, "origin");
  parsed.source_sha256 = words(card, "source_sha256");
  return parsed;
}

}  // namespace cistern::models
