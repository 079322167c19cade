// The seam between an epoch and the ways to compute a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "models/checkpoint.hpp"
#include "models/fused_mnist_cnn.hpp"
#include "models/idx_dataset.hpp"

namespace cistern::train {

struct PictureSets;

struct Epoch {
  std::int64_t index = 0;
  double learning_rate = 0.0;
  at::Tensor order;  ///< Shapes: [training images] int64, on the CPU: the images as they come.
};

/// Has a network, and the data that it trains on and is measured with.
class Learner {
 public:
  Learner() = default;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;
  virtual ~Learner() = default;

  virtual std::int64_t training_images() const = 0;
  virtual void begin_epoch(const Epoch& epoch) = 0;

  /// One optimiser step on the images order[first] ... order[first + count - 1]. Requires begin_epoch.
  virtual void train_batch(std::int64_t first, std::int64_t count) = 0;

  /// Sums over the batches since set_sums.
  virtual models::BatchSums sums() const = 0;
  virtual void set_sums(const models::BatchSums& sums) = 0;

  /// Over the test images.
  virtual models::BatchSums evaluate() = 0;
  /// On the CPU, wherever the learner is.
  virtual models::LearnedState state() const = 0;
};

/// "plain": MnistCnn by autograd and tensor operations, written as a tutorial would. The measure for the
/// allocator, and what the tuned loop's gradients are tested against.
std::unique_ptr<Learner> make_plain_learner(const models::Mnist& data, const models::LearnedState& start,
                                            at::Device device);

/// "tuned": models/fused_mnist_cnn.hpp, on the CPU.
std::unique_ptr<Learner> make_tuned_learner(const models::Mnist& data, const models::LearnedState& start,
                                            std::int64_t batch_size, int threads);

/// MobileNetV2 on pictures, by autograd. Of the setup it follows the card, the seed and the augmentation:
/// what is drawn at random in a batch depends on the seed, the epoch and the batch, and on nothing that was
/// drawn before.
std::unique_ptr<Learner> make_picture_learner(std::shared_ptr<const PictureSets> data,
                                              const models::TrainingSetup& setup,
                                              const models::LearnedState& start, at::Device device);

}  // namespace cistern::train
