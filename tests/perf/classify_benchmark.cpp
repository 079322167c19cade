// Our side of classify_pairs.py, with peers/mobilenet.py's arguments and answers:
//   classify_benchmark FORM WEIGHTS IMAGES THREADS BATCH      FORM: inference or module
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/mobilenet_v2_inference.hpp"

namespace {

using namespace cistern;
using Call = std::function<at::Tensor(const at::Tensor&)>;
constexpr int kWarmUp = 6;

at::Tensor read_images(const char* file, std::int64_t batch) {
  at::Tensor images = at::empty({batch, 224, 224, 3});
  std::ifstream stream(file, std::ios::binary);
  stream.read(static_cast<char*>(images.mutable_data_ptr()), static_cast<std::streamsize>(images.nbytes()));
  if (!stream) throw std::runtime_error(std::string(file) + " holds too few images");
  return images.permute({0, 3, 1, 2});
}

Call make_call(const std::string& form, const models::Weights& weights, int threads) {
  if (form == "inference") {
    auto network = std::make_shared<models::MobileNetV2Inference>(weights, threads);
    return [network](const at::Tensor& images) { return network->logits(images); };
  }
  models::MobileNetV2 module(weights.card.network, at::detail::createCPUGenerator());
  module->eval();
  load_into(*module, weights);
  for (at::Tensor& parameter : module->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  return [module](const at::Tensor& images) mutable { return module->forward(images); };
}

void print_answer(const at::Tensor& logits) {
  std::cout << "{\"top1\": [";
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    std::cout << (i == 0 ? "" : ", ") << logits[i].argmax().item<std::int64_t>();
  }
  std::cout << "], \"logits\": [";
  for (std::int64_t i = 0; i < logits.size(1); ++i)
    std::cout << (i == 0 ? "" : ", ") << logits[0][i].item<float>();
  std::cout << "]}" << std::endl;
}

void serve(const Call& call, const at::Tensor& images) {
  int calls = 0;
  while (std::cin >> calls) {
    std::cout << "[";
    for (int i = 0; i < calls; ++i) {
      const std::clock_t cpu = std::clock();
      const auto start = std::chrono::steady_clock::now();
      call(images);
      const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
      const double cpu_ms = static_cast<double>(std::clock() - cpu) * 1e3 / CLOCKS_PER_SEC;
      std::cout << (i == 0 ? "[" : ", [") << wall.count() << ", " << cpu_ms << "]";
    }
    std::cout << "]" << std::endl;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "classify_benchmark: FORM WEIGHTS IMAGES THREADS BATCH\n";
    return 2;
  }
  try {
    const int threads = std::atoi(arguments[4]);
    install_cpu();
    at::set_num_threads(threads);
    const at::InferenceMode inference;
    const Call call = make_call(arguments[1], models::read_weights(arguments[2]), threads);
    const at::Tensor images = read_images(arguments[3], std::atoi(arguments[5]));
    for (int i = 0; i < kWarmUp; ++i) call(images);
    print_answer(call(images));
    serve(call, images);
  } catch (const std::exception& error) {
    std::cerr << "classify_benchmark: " << error.what() << "\n";
    return 1;
  }
}
