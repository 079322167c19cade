#include "apps/common/device.hpp"

#include <stdexcept>

namespace cistern::apps {

ChosenDevice choose_device(const std::string& device, const std::string& reason_for_cpu) {
  if (device == "cpu") return {std::nullopt, "as asked"};
  const bool automatic = device == "auto";
  if (automatic && !reason_for_cpu.empty()) return {std::nullopt, reason_for_cpu};
  const int index = device.starts_with("cuda:") ? std::stoi(device.substr(5)) : 0;
  const std::string obstacle = prepare_cuda(index);
  if (obstacle.empty()) return {index, automatic ? "found" : "as asked"};
  if (automatic) return {std::nullopt, obstacle};
  throw std::runtime_error("--device " + device + ": " + obstacle + "; use --device cpu");
}

}  // namespace cistern::apps
