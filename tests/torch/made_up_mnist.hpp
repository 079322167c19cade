// A small learnable stand-in for MNIST.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "models/idx_dataset.hpp"

namespace cistern::models {

inline at::Generator seeded_generator(std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator();
  generator.set_current_seed(seed);
  return generator;
}

/// A bright patch whose place says which class it is, over noise.
inline LabelledImages made_up_images(std::int64_t count, std::uint64_t seed) {
  at::Generator generator = seeded_generator(seed);
  LabelledImages data;
  data.images = torch::empty({count, 1, 28, 28}).uniform_(0.0, 0.3, generator);
  data.labels = torch::empty({count}, torch::kLong).random_(0, 10, generator);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = data.labels[i].item<std::int64_t>();
    data.images[i][0].narrow(0, 4 + 12 * (label / 5), 6).narrow(1, 1 + 5 * (label % 5), 5).add_(0.6);
  }
  return data;
}

inline Mnist made_up_mnist(std::int64_t train, std::int64_t test) {
  return {made_up_images(train, 1), made_up_images(test, 2)};
}

}  // namespace cistern::models
