#include <torch/torch.h>

#include "apps/train/learner.hpp"
#include "models/keras_adam.hpp"

namespace cistern::train {
namespace {

using models::BatchSums;
using models::FusedMnistCnn;
using models::LearnedState;
using models::Mnist;
using models::NamedTensors;

constexpr const char* kNames[] = {"conv.weight", "conv.bias", "dense.weight", "dense.bias"};

at::Tensor pack(const NamedTensors& tensors) {
  std::vector<at::Tensor> list;
  for (const char* name : kNames) list.push_back(tensors.at(name));
  return FusedMnistCnn::pack(list);
}

NamedTensors unpack(const at::Tensor& flat) {
  const std::vector<at::Tensor> list = FusedMnistCnn::unpack(flat);
  NamedTensors tensors;
  for (std::size_t i = 0; i < list.size(); ++i) tensors[kNames[i]] = list[i];
  return tensors;
}

class TunedLearner final : public Learner {
 public:
  TunedLearner(const Mnist& data, const LearnedState& start, std::int64_t batch_size, int threads)
      : data_(data),
        network_(batch_size, threads),
        optimizer_({network_.parameters()}, 0.0) {  // Each epoch brings its rate.
    network_.parameters().copy_(pack(start.parameters));
    optimizer_.first_moments()[0].copy_(pack(start.first_moments));
    optimizer_.second_moments()[0].copy_(pack(start.second_moments));
    optimizer_.set_step_count(start.adam_steps);
  }

  std::int64_t training_images() const override { return data_.train.images.size(0); }

  void begin_epoch(const Epoch& epoch) override {
    optimizer_.set_learning_rate(epoch.learning_rate);
    order_ = epoch.order;
  }

  void train_batch(std::int64_t first, std::int64_t count) override {
    const std::span<const std::int64_t> rows(order_.const_data_ptr<std::int64_t>() + first,
                                             static_cast<std::size_t>(count));
    sums_ += network_.forward_backward(data_.train, rows);
    optimizer_.fused_step({network_.gradients()});
  }

  BatchSums sums() const override { return sums_; }
  void set_sums(const BatchSums& sums) override { sums_ = sums; }
  BatchSums evaluate() override { return network_.evaluate(data_.test); }

  LearnedState state() const override {
    return {unpack(network_.parameters()),
            unpack(optimizer_.first_moments()[0]),
            unpack(optimizer_.second_moments()[0]),
            {},
            optimizer_.step_count()};
  }

 private:
  const Mnist data_;
  FusedMnistCnn network_;
  models::KerasAdam optimizer_;
  BatchSums sums_;
  at::Tensor order_;
};

}  // namespace

std::unique_ptr<Learner> make_tuned_learner(const Mnist& data, const LearnedState& start,
                                            std::int64_t batch_size, int threads) {
  return std::make_unique<TunedLearner>(data, start, batch_size, threads);
}

}  // namespace cistern::train
