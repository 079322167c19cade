// Workloads of training.
#include <deque>
#include <vector>

#include "workloads/generators.hpp"
#include "workloads/recorder.hpp"

namespace cistern::workloads {
namespace {

using Block = Recorder::Block;

/// A transformer as its allocations: sizes only.
class Transformer {
 public:
  Transformer(Recorder& recorder, std::uint64_t layers, std::uint64_t width)
      : recorder_(recorder), layers_(layers), width_(width) {
    shapes_.push_back(kWords * width_);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      for (const std::uint64_t factor : {3, 1, 4, 4}) shapes_.push_back(factor * width_ * width_);
      shapes_.push_back(width_);
      shapes_.push_back(width_);
    }
    for (const std::uint64_t shape : shapes_) recorder_.allocate(shape * kFloat);
    gradients_.resize(shapes_.size());
  }

  /// Forward without keeping anything for backward: one layer's activations live at once.
  void evaluate(std::uint64_t batch, std::uint64_t length) {
    Block hidden = activation(batch * length * width_);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const Block qkv = activation(3 * batch * length * width_);
      recorder_.touch(batch * kHeads * length * length * kFloat);
      const Block next = activation(batch * length * width_);
      recorder_.free(qkv);
      recorder_.touch(4 * batch * length * width_ * kFloat);
      recorder_.free(hidden);
      hidden = next;
    }
    recorder_.touch(batch * length * kWords * kFloat);
    recorder_.free(hidden);
  }

  /// Forward and backward; gradients are added to what is there.
  void accumulate(std::uint64_t batch, std::uint64_t length) {
    std::vector<Block> saved{activation(batch * length * width_)};
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      for (const std::uint64_t factor : {1, 3}) saved.push_back(activation(factor * batch * length * width_));
      saved.push_back(activation(batch * kHeads * length * length));
      recorder_.touch(batch * length * width_ * kFloat);
      for (const std::uint64_t factor : {1, 4, 4, 1}) saved.push_back(activation(factor * batch * length * width_));
    }
    recorder_.touch(batch * length * kWords * kFloat);
    Block gradient = activation(batch * length * width_);
    for (std::size_t shape = shapes_.size(); shape-- > 0;) {
      if (shape % 6 == 0 && saved.size() > 7) {
        const Block passed = activation(batch * length * width_);
        recorder_.free(gradient);
        gradient = passed;
        for (int freed = 0; freed < 7; ++freed) {
          recorder_.free(saved.back());
          saved.pop_back();
        }
      }
      if (gradients_[shape].bytes == 0) gradients_[shape] = recorder_.allocate(shapes_[shape] * kFloat);
      else recorder_.touch(shapes_[shape] * kFloat);
    }
    recorder_.free(gradient);
    recorder_.free_all(saved);
  }

  /// Adam: two moments a parameter from the first step on, one temporary each, then the gradients go.
  void step() {
    for (std::size_t shape = 0; shape < shapes_.size(); ++shape) {
      if (!has_moments_) {
        recorder_.allocate(shapes_[shape] * kFloat);
        recorder_.allocate(shapes_[shape] * kFloat);
      }
      recorder_.touch(shapes_[shape] * kFloat);
    }
    has_moments_ = true;
    recorder_.free_all(gradients_);
    gradients_.assign(shapes_.size(), {});
  }

 private:
  static constexpr std::uint64_t kFloat = 4;
  static constexpr std::uint64_t kWords = 8192;
  static constexpr std::uint64_t kHeads = 8;

  Block activation(std::uint64_t elements) { return recorder_.allocate(elements * kFloat); }

  Recorder& recorder_;
  const std::uint64_t layers_;
  const std::uint64_t width_;
  std::vector<std::uint64_t> shapes_;
  std::vector<Block> gradients_;
  bool has_moments_ = false;
};

}  // namespace

ReplayProgram varying_batches(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  Transformer transformer(recorder, settings.at("layers"), settings.at("width"));
  for (std::uint64_t step = 0; step < settings.at("steps"); ++step) {
    transformer.accumulate(recorder.between(1, settings.at("most_batch")),
                           recorder.between(1, settings.at("most_length") / 8) * 8);
    transformer.step();
  }
  return recorder.take();
}

ReplayProgram gradient_accumulation(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  Transformer transformer(recorder, settings.at("layers"), settings.at("width"));
  const std::uint64_t length = settings.at("length");
  for (std::uint64_t epoch = 0; epoch < settings.at("epochs"); ++epoch) {
    for (std::uint64_t step = 0; step < settings.at("steps"); ++step) {
      for (std::uint64_t part = 0; part < settings.at("parts"); ++part) {
        transformer.accumulate(settings.at("batch"), length);
      }
      transformer.step();
    }
    // Evaluation takes larger batches, the last of them whatever is left.
    for (std::uint64_t batch = 0; batch < 4; ++batch) transformer.evaluate(settings.at("batch") * 4, length);
    transformer.evaluate(recorder.between(1, settings.at("batch") * 4), length);
  }
  return recorder.take();
}

ReplayProgram pinned_loader(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  const std::uint64_t workers = settings.at("workers");
  const std::uint64_t copy_stream = workers + 1;
  struct Batch {
    Block pictures;
    Block labels;
  };
  std::deque<Batch> queue;
  for (std::uint64_t step = 0; step < settings.at("batches"); ++step) {
    // Workers fill buffers ahead; pictures differ in size, so do the batches made of them.
    while (queue.size() < workers * settings.at("prefetch")) {
      const std::uint64_t side = recorder.between(16, 32) * 8;
      const std::uint64_t worker = 1 + step % workers;
      queue.push_back({recorder.allocate(settings.at("batch") * 3 * side * side * 4, worker),
                       recorder.allocate(settings.at("batch") * 8, worker)});
    }
    const Batch batch = queue.front();
    queue.pop_front();
    recorder.use(batch.pictures, copy_stream);
    recorder.use(batch.labels, copy_stream);
    recorder.free(batch.pictures);
    recorder.free(batch.labels);
    if (step % 2 == 1) recorder.sync(copy_stream);  // the step that needed the copies is over
  }
  for (const Batch& batch : queue) recorder.free_all(std::vector<Block>{batch.pictures, batch.labels});
  return recorder.take();
}

}  // namespace cistern::workloads
