#include "apps/train/device.hpp"

#include <stdexcept>

#include "apps/train/options.hpp"

namespace cistern::train {

ChosenDevice choose_device(const TrainOptions& options) {
  if (options.device == "cpu") return {std::nullopt, "as asked"};
  const bool automatic = options.device == "auto";
  if (automatic && options.loop == kTunedLoop) return {std::nullopt, "the tuned loop is code for the CPU"};
  const int index = options.device.starts_with("cuda:") ? std::stoi(options.device.substr(5)) : 0;
  const std::string obstacle = prepare_cuda(index);
  if (obstacle.empty()) return {index, automatic ? "found" : "as asked"};
  if (automatic) return {std::nullopt, obstacle};
  throw std::runtime_error("--device " + options.device + ": " + obstacle + "; use --device cpu");
}

}  // namespace cistern::train
