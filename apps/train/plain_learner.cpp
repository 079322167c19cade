#include <torch/torch.h>

#include "apps/train/learner.hpp"
#include "models/keras_adam.hpp"
#include "models/mnist_cnn.hpp"

namespace cistern::train {
namespace {

using models::BatchSums;
using models::LabelledImages;
using models::LearnedState;

constexpr std::int64_t kEvaluationBatch = 1000;  // As in the MNIST example of PyTorch.

void copy_all(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
}

std::vector<at::Tensor> copies_on_cpu(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(
        tensor.detach().to(tensor.options().device(at::kCPU), /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
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
  PlainLearner(const LearnedState& start, double learning_rate, at::Device device)
      : device_(device),
        model_(placed_on(device, models::MnistCnn(at::detail::createCPUGenerator()))),
        optimizer_(model_->parameters(), learning_rate) {
    copy_all(start.parameters, optimizer_.parameters());
    copy_all(start.first_moments, optimizer_.first_moments());
    copy_all(start.second_moments, optimizer_.second_moments());
    optimizer_.set_step_count(start.adam_steps);
    set_sums({});
  }

  void train_batch(const LabelledImages& data, const at::Tensor& rows) override {
    const at::Tensor images = data.images.index_select(0, rows);
    const at::Tensor labels = data.labels.index_select(0, rows);
    model_->zero_grad();
    const at::Tensor logits = model_->forward(images);
    const at::Tensor loss = torch::cross_entropy_loss(logits, labels);
    loss.backward();
    const torch::NoGradGuard no_grad;
    optimizer_.step();
    add_to_sums(logits, labels, loss);
  }

  BatchSums sums() const override {
    return {loss_sum_.item<double>(), correct_.item<std::int64_t>(), count_};
  }
  void set_sums(const BatchSums& sums) override {
    loss_sum_ = torch::full({}, sums.loss, at::device(device_).dtype(torch::kDouble));
    correct_ = torch::full({}, sums.correct, at::device(device_).dtype(torch::kLong));
    count_ = sums.count;
  }

  BatchSums evaluate(const LabelledImages& data) override {
    const torch::NoGradGuard no_grad;
    const BatchSums training = sums();
    set_sums({});
    for (std::int64_t first = 0; first < data.images.size(0); first += kEvaluationBatch) {
      const std::int64_t count = std::min(kEvaluationBatch, data.images.size(0) - first);
      const at::Tensor logits = model_->forward(data.images.narrow(0, first, count));
      const at::Tensor labels = data.labels.narrow(0, first, count);
      add_to_sums(logits, labels, torch::cross_entropy_loss(logits, labels));
    }
    const BatchSums result = sums();
    set_sums(training);
    return result;
  }

  LearnedState state() const override {
    return {copies_on_cpu(model_->parameters()), copies_on_cpu(optimizer_.first_moments()),
            copies_on_cpu(optimizer_.second_moments()), optimizer_.step_count()};
  }

 private:
  // Sums stay tensors: nothing waits for a result in the middle of an epoch.
  void add_to_sums(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& mean_loss) {
    loss_sum_ += mean_loss.detach() * labels.size(0);
    correct_ += (logits.argmax(1) == labels).sum();
    count_ += labels.size(0);
  }

  const at::Device device_;
  models::MnistCnn model_;
  models::KerasAdam optimizer_;
  at::Tensor loss_sum_, correct_;
  std::int64_t count_ = 0;
};

}  // namespace

LearnedState initial_state(const at::Generator& generator) {
  const std::vector<at::Tensor> parameters = copies_on_cpu(models::MnistCnn(generator)->parameters());
  LearnedState state{parameters, {}, {}, 0};
  for (const at::Tensor& parameter : parameters) {
    state.first_moments.push_back(torch::zeros_like(parameter));
    state.second_moments.push_back(torch::zeros_like(parameter));
  }
  return state;
}

std::unique_ptr<Learner> make_plain_learner(const LearnedState& start, double learning_rate,
                                            at::Device device) {
  return std::make_unique<PlainLearner>(start, learning_rate, device);
}

}  // namespace cistern::train
