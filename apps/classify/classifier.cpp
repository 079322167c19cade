#include "apps/classify/classifier.hpp"

#include <torch/torch.h>

#include "models/mnist_cnn.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/mobilenet_v2_inference.hpp"

namespace cistern::classify {

using models::Weights;

// One of the three is there.
struct Classifier::Network {
  std::unique_ptr<models::MobileNetV2Inference> inference;
  models::MobileNetV2 mobilenet{nullptr};
  models::MnistCnn mnist{nullptr};
  at::Device device;

  Network(const Weights& weights, at::Device where, int threads) : device(where) {
    const at::Generator unused = at::detail::createCPUGenerator();
    if (weights.card.model == models::kMnistCnnName) {
      mnist = models::MnistCnn(unused);
      prepare(*mnist, weights, threads);
    } else if (device.is_cpu()) {
      inference = std::make_unique<models::MobileNetV2Inference>(weights, threads);
    } else {
      mobilenet = models::MobileNetV2(weights.card.network, unused);
      prepare(*mobilenet, weights, threads);
    }
  }

  void prepare(torch::nn::Module& module, const Weights& weights, int threads) const {
    at::set_num_threads(threads);
    models::load_into(module, weights);
    module.eval();
    module.to(device);
  }

  at::Tensor logits(const at::Tensor& images) {
    if (inference) return inference->logits(images);
    const at::Tensor there = images.to(device);
    return (mnist.is_empty() ? mobilenet->forward(there) : mnist->forward(there)).to(at::kCPU);
  }
};

Classifier::Classifier(const Weights& weights, at::Device device, int threads, std::int64_t largest_batch)
    : input_(weights.card.preprocessing),
      values_(input_),
      network_(std::make_unique<Network>(weights, device, threads)),
      images_(at::empty({largest_batch, input_.size, input_.size, input_.channels}, at::kFloat)) {}

Classifier::~Classifier() = default;

void Classifier::add(const cv::Mat& picture, models::Resize how) {
  values_.write(models::resized(picture, input_.size, how), images_[count_++].mutable_data_ptr<float>());
}

at::Tensor Classifier::probabilities() {
  const torch::NoGradGuard no_grad;
  const at::Tensor images = images_.narrow(0, 0, count_).permute({0, 3, 1, 2});
  count_ = 0;
  return at::softmax(network_->logits(images), 1);
}

}  // namespace cistern::classify
