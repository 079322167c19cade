#include <torch/torch.h>

#include "apps/train/device_sums.hpp"
#include "apps/train/learner.hpp"
#include "apps/train/network.hpp"
#include "models/keras_adam.hpp"
#include "models/mnist_cnn.hpp"

namespace cistern::train {
namespace {

using models::BatchSums;
using models::LabelledImages;
using models::LearnedState;
using models::Mnist;

constexpr std::int64_t kEvaluationBatch = 1000;  // As in the MNIST example of PyTorch.

Mnist placed_on(at::Device device, Mnist data) {
  for (LabelledImages* part : {&data.train, &data.test}) {
    part->images = part->images.to(device);
    part->labels = part->labels.to(device);
  }
  return data;
}

/// On the CPU in the layout in which torch's convolution and pooling are fastest there; the images take it
/// from the weights.
models::MnistCnn placed_on(at::Device device, models::MnistCnn model) {
  model->to(device);
  if (!device.is_cpu()) return model;
  at::Tensor& weight = model->conv->weight;
  weight.set_data(weight.detach().to(weight.options(), false, true, at::MemoryFormat::ChannelsLast));
  return model;
}

class PlainLearner final : public Learner {
 public:
  PlainLearner(const Mnist& data, const LearnedState& start, at::Device device)
      : device_(device),
        data_(placed_on(device, data)),
        model_(placed_on(device, models::MnistCnn(at::detail::createCPUGenerator()))),
        optimizer_(model_->parameters(), 0.0),  // Each epoch brings its rate.
        sums_(device, {}) {
    put_state(start, *model_, optimizer_);
  }

  std::int64_t training_images() const override { return data_.train.images.size(0); }

  // The order goes over once an epoch, and from pinned memory, so that the device need not be waited for.
  void begin_epoch(const Epoch& epoch) override {
    optimizer_.set_learning_rate(epoch.learning_rate);
    order_ = device_.is_cpu() ? epoch.order : epoch.order.pin_memory().to(device_, /*non_blocking=*/true);
  }

  void train_batch(std::int64_t first, std::int64_t count) override {
    const at::Tensor rows = order_.narrow(0, first, count);
    const at::Tensor images = data_.train.images.index_select(0, rows);
    const at::Tensor labels = data_.train.labels.index_select(0, rows);
    model_->zero_grad();
    const at::Tensor logits = model_->forward(images);
    const at::Tensor loss = torch::cross_entropy_loss(logits, labels);
    loss.backward();
    const torch::NoGradGuard no_grad;
    optimizer_.step();
    sums_.add(logits, labels, loss);
  }

  BatchSums sums() const override { return sums_.values(); }
  void set_sums(const BatchSums& sums) override { sums_ = DeviceSums(device_, sums); }

  BatchSums evaluate() override {
    const torch::NoGradGuard no_grad;
    const LabelledImages& data = data_.test;
    DeviceSums sums(device_, {});
    for (std::int64_t first = 0; first < data.images.size(0); first += kEvaluationBatch) {
      const std::int64_t count = std::min(kEvaluationBatch, data.images.size(0) - first);
      const at::Tensor logits = model_->forward(data.images.narrow(0, first, count));
      const at::Tensor labels = data.labels.narrow(0, first, count);
      sums.add(logits, labels, torch::cross_entropy_loss(logits, labels));
    }
    return sums.values();
  }

  LearnedState state() const override { return take_state(*model_, optimizer_); }

 private:
  const at::Device device_;
  const Mnist data_;
  models::MnistCnn model_;
  models::KerasAdam optimizer_;
  DeviceSums sums_;
  at::Tensor order_;
};

}  // namespace

std::unique_ptr<Learner> make_plain_learner(const Mnist& data, const LearnedState& start, at::Device device) {
  return std::make_unique<PlainLearner>(data, start, device);
}

}  // namespace cistern::train
