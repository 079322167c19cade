#include "models/mobilenet_v2.hpp"

#include <cmath>
#include <utility>

namespace cistern::models {
namespace {

constexpr double kDropout = 0.2;

// Registers a module under a dotted name, making the containers on the way.
template <class Holder>
void register_at(torch::nn::Module& root, const std::string& path, const Holder& module) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) {
    root.register_module(path, module.ptr());
    return;
  }
  const std::string first = path.substr(0, dot);
  std::shared_ptr<torch::nn::Module> child =
      root.named_children().contains(first)
          ? root.named_children()[first]
          : root.register_module(first, std::make_shared<torch::nn::Module>());
  register_at(*child, path.substr(dot + 1), module);
}

at::Tensor padded(const at::Tensor& images, Padding padding, std::int64_t stride) {
  const SidePadding rows = side_padding(padding, images.size(2), stride);
  const SidePadding columns = side_padding(padding, images.size(3), stride);
  return torch::constant_pad_nd(images, {columns.before, columns.after, rows.before, rows.after});
}

}  // namespace

MobileNetV2Impl::MobileNetV2Impl(const MobileNetV2Options& options, const at::Generator& generator)
    : options_(options) {
  using torch::nn::BatchNormOptions, torch::nn::Conv2dOptions;
  for (ConvLayer& layer : mobilenet_v2_layers(options)) {
    Step step{std::move(layer)};
    const ConvLayer& made = step.layer;
    // A stride of 1 needs one zero on every side, whatever the padding; a stride of 2 is padded in forward().
    const std::int64_t padding = made.kernel() == 3 && made.stride == 1 ? 1 : 0;
    step.conv = torch::nn::Conv2d(Conv2dOptions(made.inputs, made.outputs, made.kernel())
                                      .stride(made.stride)
                                      .padding(padding)
                                      .groups(made.groups())
                                      .bias(false));
    step.batch_norm = torch::nn::BatchNorm2d(BatchNormOptions(made.outputs).eps(options.epsilon));
    register_at(*this, made.name, step.conv);
    register_at(*this, made.batch_norm, step.batch_norm);
    steps_.push_back(std::move(step));
  }
  dropout_ = torch::nn::Dropout(kDropout);
  classifier_ = torch::nn::Linear(mobilenet_v2_features(options), options.classes);
  register_at(*this, "classifier.0", dropout_);
  register_at(*this, "classifier.1", classifier_);

  std::int64_t count = 0;
  for (const at::Tensor& parameter : parameters()) count += parameter.numel();
  TORCH_CHECK(count == mobilenet_v2_parameter_count(options), "MobileNetV2 has ", count, " parameters, not ",
              mobilenet_v2_parameter_count(options));
  initialise(generator);
}

void MobileNetV2Impl::initialise(const at::Generator& generator) {
  const torch::NoGradGuard no_grad;
  for (Step& step : steps_) {
    const ConvLayer& layer = step.layer;
    const std::int64_t fan_out = layer.outputs * layer.kernel() * layer.kernel();
    step.conv->weight.normal_(0.0, std::sqrt(2.0 / static_cast<double>(fan_out)), generator);
  }
  classifier_->weight.normal_(0.0, 0.01, generator);
  classifier_->bias.zero_();
}

at::Tensor MobileNetV2Impl::forward(const at::Tensor& images) {
  at::Tensor at = images;
  at::Tensor kept;
  for (Step& step : steps_) {
    const ConvLayer& layer = step.layer;
    if (layer.residual == ConvLayer::Residual::kOpens) kept = at;
    if (layer.stride != 1) at = padded(at, options_.padding, layer.stride);
    at = step.batch_norm->forward(step.conv->forward(at));
    if (layer.relu6) at = torch::relu6_(at);
    if (layer.residual == ConvLayer::Residual::kCloses) at = at + kept;
  }
  return classifier_->forward(dropout_->forward(at.mean({2, 3})));
}

}  // namespace cistern::models
