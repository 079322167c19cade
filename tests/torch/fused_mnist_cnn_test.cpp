#include "models/fused_mnist_cnn.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "made_up_mnist.hpp"
#include "models/mnist_cnn.hpp"

namespace cistern::models {
namespace {

std::vector<std::int64_t> rows_of(std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back((i * 7 + 3) % 100);  // Not in order, some twice.
  return rows;
}

struct Reference {
  MnistCnn model{seeded_generator(5)};
  LabelledImages data = made_up_images(100, 3);

  // A bias that lets some features die and others live everywhere.
  Reference() {
    const torch::NoGradGuard no_grad;
    at::Generator generator = seeded_generator(6);
    model->conv->bias.uniform_(-0.3, 0.3, generator);
    model->dense->bias.uniform_(-0.3, 0.3, generator);
  }
  at::Tensor packed() const {
    const torch::NoGradGuard no_grad;
    return FusedMnistCnn::pack(model->parameters());
  }
  BatchSums backward(const std::vector<std::int64_t>& rows) {
    const at::Tensor index = torch::tensor(rows);
    const at::Tensor labels = data.labels.index_select(0, index);
    const at::Tensor logits = model->forward(data.images.index_select(0, index));
    const at::Tensor loss = torch::cross_entropy_loss(logits, labels);
    model->zero_grad();
    loss.backward();
    const auto count = static_cast<std::int64_t>(rows.size());
    return {loss.item<double>() * static_cast<double>(count),
            (logits.argmax(1) == labels).sum().item<std::int64_t>(), count};
  }
};

TEST(FusedMnistCnn, ItsGradientsLossAndHitsAreThoseOfAutograd) {
  Reference reference;
  for (const std::int64_t batch : {1, 2, 7, 8, 9, 32, 61}) {
    SCOPED_TRACE(batch);
    FusedMnistCnn fused(batch, 2);
    fused.parameters().copy_(reference.packed());
    const std::vector<std::int64_t> rows = rows_of(batch);
    const BatchSums expected = reference.backward(rows);
    const BatchSums sums = fused.forward_backward(reference.data, rows);
    EXPECT_NEAR(sums.loss, expected.loss, 1e-4 * expected.loss);
    EXPECT_EQ(sums.correct, expected.correct);
    EXPECT_EQ(sums.count, batch);
    const std::vector<at::Tensor> gradients = FusedMnistCnn::unpack(fused.gradients());
    const std::vector<at::Tensor> parameters = reference.model->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& wanted = parameters[i].grad();
      EXPECT_TRUE(torch::allclose(gradients[i], wanted, 1e-4, 1e-6))
          << "parameter " << i << " differs by " << (gradients[i] - wanted).abs().max().item<float>();
    }
  }
}

TEST(FusedMnistCnn, PackAndUnpackLoseNothing) {
  const Reference reference;
  const std::vector<at::Tensor> back = FusedMnistCnn::unpack(reference.packed());
  const std::vector<at::Tensor> parameters = reference.model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::equal(back[i], parameters[i]));
    EXPECT_TRUE(back[i].is_contiguous());
  }
}

TEST(FusedMnistCnn, TheNumberOfThreadsChangesNoBit) {
  const Reference reference;
  std::vector<at::Tensor> gradients;
  for (const int threads : {1, 2, 3, 5}) {
    FusedMnistCnn fused(61, threads);
    fused.parameters().copy_(reference.packed());
    for (int repeat = 0; repeat < 20; ++repeat) {
      fused.forward_backward(reference.data, rows_of(61));
      gradients.push_back(fused.gradients().clone());
    }
  }
  for (const at::Tensor& other : gradients) EXPECT_TRUE(torch::equal(other, gradients.front()));
}

TEST(FusedMnistCnn, ASmallerBatchLeavesNothingOfTheLargerOneBehind) {
  const Reference reference;
  FusedMnistCnn used(32, 2), fresh(32, 2);
  used.parameters().copy_(reference.packed());
  fresh.parameters().copy_(reference.packed());
  used.forward_backward(reference.data, rows_of(32));
  const BatchSums again = used.forward_backward(reference.data, rows_of(5));
  const BatchSums first = fresh.forward_backward(reference.data, rows_of(5));
  EXPECT_EQ(again.loss, first.loss);
  EXPECT_TRUE(torch::equal(used.gradients(), fresh.gradients()));
}

TEST(FusedMnistCnn, EvaluationIsTheForwardPassOfTheModel) {
  Reference reference;
  FusedMnistCnn fused(32, 2);
  fused.parameters().copy_(reference.packed());
  const torch::NoGradGuard no_grad;
  const at::Tensor logits = reference.model->forward(reference.data.images);
  const BatchSums sums = fused.evaluate(reference.data);
  EXPECT_EQ(sums.count, 100);
  EXPECT_EQ(sums.correct, (logits.argmax(1) == reference.data.labels).sum().item<std::int64_t>());
  EXPECT_NEAR(sums.mean_loss(), torch::cross_entropy_loss(logits, reference.data.labels).item<double>(),
              1e-5);
}

}  // namespace
}  // namespace cistern::models
