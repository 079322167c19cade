#include <torch/torch.h>

#include "apps/train/learner.hpp"
#include "models/keras_adam.hpp"

namespace cistern::train {
namespace {

using models::BatchSums;
using models::FusedMnistCnn;
using models::LabelledImages;
using models::LearnedState;

class TunedLearner final : public Learner {
 public:
  TunedLearner(const LearnedState& start, double learning_rate, std::int64_t batch_size, int threads)
      : network_(batch_size, threads), optimizer_({network_.parameters()}, learning_rate) {
    network_.parameters().copy_(FusedMnistCnn::pack(start.parameters));
    optimizer_.first_moments()[0].copy_(FusedMnistCnn::pack(start.first_moments));
    optimizer_.second_moments()[0].copy_(FusedMnistCnn::pack(start.second_moments));
    optimizer_.set_step_count(start.adam_steps);
  }

  void train_batch(const LabelledImages& data, const at::Tensor& rows) override {
    const std::span<const std::int64_t> indices(rows.const_data_ptr<std::int64_t>(),
                                                static_cast<std::size_t>(rows.numel()));
    sums_ += network_.forward_backward(data, indices);
    optimizer_.fused_step({network_.gradients()});
  }

  BatchSums sums() const override { return sums_; }
  void set_sums(const BatchSums& sums) override { sums_ = sums; }
  BatchSums evaluate(const LabelledImages& data) override { return network_.evaluate(data); }

  LearnedState state() const override {
    return {FusedMnistCnn::unpack(network_.parameters()),
            FusedMnistCnn::unpack(optimizer_.first_moments()[0]),
            FusedMnistCnn::unpack(optimizer_.second_moments()[0]), optimizer_.step_count()};
  }

 private:
  FusedMnistCnn network_;
  models::KerasAdam optimizer_;
  BatchSums sums_;
};

}  // namespace

std::unique_ptr<Learner> make_tuned_learner(const LearnedState& start, double learning_rate,
                                            std::int64_t batch_size, int threads) {
  return std::make_unique<TunedLearner>(start, learning_rate, batch_size, threads);
}

}  // namespace cistern::train
