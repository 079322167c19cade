#include <torch/torch.h>

#include "apps/train/augment.hpp"
#include "apps/train/device_sums.hpp"
#include "apps/train/learner.hpp"
#include "apps/train/network.hpp"
#include "apps/train/pictures.hpp"
#include "models/image_input.hpp"
#include "models/keras_adam.hpp"
#include "models/mobilenet_v2.hpp"

namespace cistern::train {
namespace {

using models::BatchSums;
using models::LearnedState;
using models::TrainingSetup;

constexpr std::int64_t kEvaluationBatch = 100;

// A number that looks like none of those it is made of (SplitMix64's finish), never 0: cv::RNG repeats that.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  std::uint64_t value = seed;
  for (const std::uint64_t part : {a, b}) {
    value += 0x9e3779b97f4a7c15 * (part + 1);
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    value ^= value >> 31;
  }
  return value == 0 ? 1 : value;
}

class PictureLearner final : public Learner {
 public:
  PictureLearner(std::shared_ptr<const PictureSets> data, const TrainingSetup& setup,
                 const LearnedState& start, at::Device device)
      : device_(device),
        data_(std::move(data)),
        seed_(setup.seed),
        augmentation_(augmentation_from(setup.augmentation)),
        input_(setup.card.preprocessing),
        values_(input_),
        network_(setup.card.network, at::detail::createCPUGenerator()),
        optimizer_(placed_on(device, network_)->parameters(), 0.0),  // Each epoch brings its rate.
        sums_(device, {}) {
    put_state(start, *network_, optimizer_);
  }

  std::int64_t training_images() const override { return data_->train->count(); }

  void begin_epoch(const Epoch& epoch) override {
    epoch_ = epoch;
    optimizer_.set_learning_rate(epoch.learning_rate);
  }

  void train_batch(std::int64_t first, std::int64_t count) override {
    const auto* rows = epoch_.order.const_data_ptr<std::int64_t>() + first;
    const auto epoch = static_cast<std::uint64_t>(epoch_.index);
    const Batch batch = load(
        *data_->train, count,
        [&](std::int64_t i, const cv::Mat& picture) {
          return augmented(picture, input_.size, augmentation_,
                           mixed(seed_, epoch, static_cast<std::uint64_t>(rows[i])));
        },
        rows);
    torch::manual_seed(mixed(seed_, epoch, ~static_cast<std::uint64_t>(first)));  // For dropout.
    network_->train();
    network_->zero_grad();
    const at::Tensor logits = network_->forward(batch.images);
    const at::Tensor loss = torch::cross_entropy_loss(logits, batch.labels);
    loss.backward();
    const torch::NoGradGuard no_grad;
    optimizer_.step();
    sums_.add(logits, batch.labels, loss);
  }

  BatchSums sums() const override { return sums_.values(); }
  void set_sums(const BatchSums& sums) override { sums_ = DeviceSums(device_, sums); }

  BatchSums evaluate() override {
    const torch::NoGradGuard no_grad;
    network_->eval();
    DeviceSums sums(device_, {});
    std::vector<std::int64_t> rows(kEvaluationBatch);
    for (std::int64_t first = 0; first < data_->test->count(); first += kEvaluationBatch) {
      const std::int64_t count = std::min(kEvaluationBatch, data_->test->count() - first);
      std::iota(rows.begin(), rows.end(), first);
      const Batch batch = load(
          *data_->test, count,
          [&](std::int64_t, const cv::Mat& picture) {
            return models::resized(picture, input_.size, models::Resize::kBilinear);
          },
          rows.data());
      const at::Tensor logits = network_->forward(batch.images);
      sums.add(logits, batch.labels, torch::cross_entropy_loss(logits, batch.labels));
    }
    return sums.values();
  }

  LearnedState state() const override { return take_state(*network_, optimizer_); }

 private:
  struct Batch {
    at::Tensor images;  // [n, channels, size, size] as the network wants it, channels innermost
    at::Tensor labels;  // [n] int64
  };

  static models::MobileNetV2& placed_on(at::Device device, models::MobileNetV2& network) {
    network->to(device);
    return network;
  }

  // prepared(i, picture) makes the network's square of the picture rows[i].
  template <class Prepare>
  Batch load(const Pictures& pictures, std::int64_t count, const Prepare& prepared,
             const std::int64_t* rows) const {
    const std::int64_t values_each = input_.channels * input_.size * input_.size;
    at::Tensor images = at::empty({count, input_.size, input_.size, input_.channels}, at::kFloat);
    at::Tensor labels = at::empty({count}, at::kLong);
    for (std::int64_t i = 0; i < count; ++i) {
      const cv::Mat picture = prepared(i, pictures.picture(rows[i], input_.channels));
      values_.write(picture, images.mutable_data_ptr<float>() + i * values_each);
      labels.mutable_data_ptr<std::int64_t>()[i] = pictures.label(rows[i]);
    }
    return {images.permute({0, 3, 1, 2}).to(device_), labels.to(device_)};
  }

  const at::Device device_;
  const std::shared_ptr<const PictureSets> data_;
  const std::uint64_t seed_;
  const Augmentation augmentation_;
  const models::Preprocessing input_;
  const models::PixelValues values_;
  models::MobileNetV2 network_;
  models::KerasAdam optimizer_;
  DeviceSums sums_;
  Epoch epoch_;
};

}  // namespace

std::unique_ptr<Learner> make_picture_learner(std::shared_ptr<const PictureSets> data,
                                              const TrainingSetup& setup, const LearnedState& start,
                                              at::Device device) {
  return std::make_unique<PictureLearner>(std::move(data), setup, start, device);
}

}  // namespace cistern::train
