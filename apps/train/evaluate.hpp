// --evaluate: weights measured on a data set's test images.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "apps/common/memory_report.hpp"
#include "apps/train/options.hpp"

namespace cistern::train {

struct Evaluation {
  std::string weights;
  std::string model;
  std::string dataset;
  std::int64_t images = 0;
  double accuracy = 0.0, loss = 0.0;
  double seconds = 0.0;
  apps::MemoryReport memory;
};

/// Installs the allocator and evaluates. Fails as run_training.
Evaluation run_evaluation(const TrainOptions& options);

void print_evaluation(std::ostream& out, const Evaluation& evaluation);
std::string json_text(const Evaluation& evaluation);

}  // namespace cistern::train
