// Random programs shaped like what trains and serves networks, and some shaped like nothing.
#include <algorithm>
#include <iterator>

#include "cuda_torch/differential_program.hpp"
#include "support/random.hpp"

namespace cistern::support {
namespace {

constexpr std::size_t kLargestBytes = 200 * kMiB;

/// Writes steps, and knows what would be live if every request were served.
class Writer {
 public:
  Writer(std::uint64_t seed, std::size_t step_count) : random(seed), step_count_(step_count) {}

  using Block = std::uint64_t;

  bool full() const { return program.steps.size() >= step_count_; }

  void add(DeviceOp op, std::uint64_t a = 0, std::uint64_t b = 0) { program.steps.push_back({op, a, b}); }

  Block allocate(std::size_t bytes, std::uint64_t stream = 0) {
    add(DeviceOp::kAllocate, std::max<std::size_t>(bytes, 1), stream);
    live_bytes += bytes;
    sizes_.push_back(bytes);
    return sizes_.size() - 1;
  }
  void free(Block block) {
    add(DeviceOp::kFree, block);
    live_bytes -= sizes_[block];
  }
  /// A workspace: taken and given at once.
  void borrow(std::size_t bytes, std::uint64_t stream = 0) { free(allocate(bytes, stream)); }

  void free_all(std::vector<Block>& blocks) {
    while (!blocks.empty()) {
      free(blocks.back());
      blocks.pop_back();
    }
  }
  void free_any(std::vector<Block>& blocks) {
    if (blocks.empty()) return;
    const std::size_t at = random.below(blocks.size());
    free(blocks[at]);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
  }

  Random random;
  DeviceProgram program;
  std::size_t live_bytes = 0;

 private:
  const std::size_t step_count_;
  std::vector<std::size_t> sizes_;
};

std::size_t scaled(std::size_t bytes, std::uint64_t percent) {
  return std::max<std::size_t>(bytes / 100 * percent, 512);
}

struct Layer {
  std::size_t weight_bytes = 0;
  std::size_t activation_bytes = 0;
  std::size_t workspace_bytes = 0;
};

std::vector<Layer> draw_layers(Random& random, std::size_t most_bytes) {
  std::vector<Layer> layers(4 + random.below(20));
  std::size_t sum = 0;
  for (Layer& layer : layers) {
    layer.weight_bytes = random.log_uniform(512, 16 * kMiB);
    layer.activation_bytes = random.log_uniform(64 * kKiB, kLargestBytes);
    layer.workspace_bytes = random.one_in(3) ? random.log_uniform(kMiB, 64 * kMiB) : 0;
    sum += 4 * layer.weight_bytes + 2 * layer.activation_bytes;
  }
  if (sum <= most_bytes) return layers;
  const double shrink = static_cast<double>(most_bytes) / static_cast<double>(sum);
  for (Layer& layer : layers) {
    for (std::size_t Layer::*bytes :
         {&Layer::weight_bytes, &Layer::activation_bytes, &Layer::workspace_bytes}) {
      layer.*bytes = static_cast<std::size_t>(static_cast<double>(layer.*bytes) * shrink);
    }
  }
  return layers;
}

void train(Writer& to) {
  to.program.streams = 2;
  const std::vector<Layer> layers = draw_layers(to.random, to.program.device_bytes / 2);
  std::vector<Writer::Block> kept;
  for (const Layer& layer : layers) kept.push_back(to.allocate(layer.weight_bytes));
  for (std::size_t iteration = 0; !to.full(); ++iteration) {
    const std::uint64_t percent =
        to.random.one_in(4) ? 20 + to.random.below(80) : 100;  // a last, smaller batch
    const Writer::Block input = to.allocate(scaled(layers[0].activation_bytes, percent), 1);
    to.add(DeviceOp::kRecordStream, input, 0);
    std::vector<Writer::Block> activations;
    for (const Layer& layer : layers) {
      if (layer.workspace_bytes != 0) to.borrow(layer.workspace_bytes);
      activations.push_back(to.allocate(scaled(layer.activation_bytes, percent)));
      if (to.random.one_in(3)) to.borrow(to.random.log_uniform(512, kMiB));
    }
    Writer::Block gradient = to.allocate(512);
    for (std::size_t i = layers.size(); i-- > 0;) {
      const Writer::Block next = to.allocate(scaled(layers[i].activation_bytes, percent));
      if (iteration == 0) kept.push_back(to.allocate(layers[i].weight_bytes));
      to.free(gradient);
      gradient = next;
      to.free(activations[i]);
    }
    to.free(gradient);
    to.free(input);
    for (const Layer& layer : layers) {
      if (iteration == 0) kept.push_back(to.allocate(2 * layer.weight_bytes));
      if (to.random.one_in(4)) to.borrow(layer.weight_bytes);
    }
    if (to.random.one_in(12)) to.add(DeviceOp::kEmptyCache);
  }
}

void infer(Writer& to) {
  to.program.streams = 1 + to.random.below(4);
  const std::vector<Layer> layers = draw_layers(to.random, to.program.device_bytes / 4);
  for (const Layer& layer : layers) to.allocate(layer.weight_bytes);
  std::vector<Writer::Block> caches;
  while (!to.full()) {
    const std::uint64_t stream = to.random.below(to.program.streams);
    const std::uint64_t percent = 5 + to.random.below(100);
    Writer::Block before = to.allocate(scaled(layers[0].activation_bytes, percent), stream);
    for (const Layer& layer : layers) {
      if (layer.workspace_bytes != 0) to.borrow(scaled(layer.workspace_bytes, percent), stream);
      const Writer::Block after = to.allocate(scaled(layer.activation_bytes, percent), stream);
      to.free(before);
      before = after;
    }
    to.free(before);
    if (to.random.one_in(2)) caches.push_back(to.allocate(to.random.log_uniform(kMiB, 32 * kMiB), stream));
    if (caches.size() > 12 || to.random.one_in(20)) to.free_any(caches);
    to.free_any(caches);  // outgrown: copied into a larger one
    caches.push_back(to.allocate(to.random.log_uniform(2 * kMiB, 48 * kMiB), stream));
  }
}

void be_uniform(Writer& to, std::size_t most_bytes, std::size_t largest_bytes) {
  to.program.streams = 1 + to.random.below(3);
  std::vector<Writer::Block> live;
  while (!to.full()) {
    const std::size_t bytes = to.random.log_uniform(512, largest_bytes);
    if (live.empty() || (to.random.below(100) < 55 && to.live_bytes + bytes < most_bytes)) {
      live.push_back(to.allocate(bytes, to.random.below(to.program.streams)));
    } else {
      to.free_any(live);
    }
    if (to.random.one_in(150)) to.add(DeviceOp::kEmptyCache);
    if (to.random.one_in(250)) to.free_all(live);
  }
}

void stream(Writer& to) {
  to.program.streams = 2 + to.random.below(3);
  std::vector<Writer::Block> live;
  const auto any_stream = [&] { return to.random.below(to.program.streams); };
  while (!to.full()) {
    switch (to.random.below(12)) {
      case 0:
        to.add(DeviceOp::kHold, any_stream());
        break;
      case 1:
        to.add(DeviceOp::kRelease, any_stream());
        break;
      case 2:
      case 3:
        to.add(DeviceOp::kAdvance, any_stream(), 1 + to.random.below(6));
        break;
      case 4:
      case 5:
        if (!live.empty()) to.add(DeviceOp::kRecordStream, live[to.random.below(live.size())], any_stream());
        break;
      case 6:
      case 7:
      case 8:
        to.free_any(live);
        break;
      default:
        if (to.live_bytes < to.program.device_bytes / 2) {
          live.push_back(to.allocate(to.random.log_uniform(512, 64 * kMiB), any_stream()));
        }
    }
    if (to.random.one_in(100)) to.add(DeviceOp::kEmptyCache);
  }
}

void press(Writer& to) {
  to.program.device_bytes = (64 + to.random.below(960)) * kMiB / (2 * kMiB) * (2 * kMiB);
  to.program.streams = 1 + to.random.below(3);
  std::vector<Writer::Block> live;
  while (!to.full()) {
    const std::size_t bytes = to.random.log_uniform(512, to.program.device_bytes / 3);
    const bool full = to.live_bytes + bytes > to.program.device_bytes;
    if (live.empty() || to.random.below(100) < (full ? 5u : 60u)) {
      live.push_back(to.allocate(bytes, to.random.below(to.program.streams)));
    } else {
      to.free_any(live);
    }
    switch (to.random.below(100)) {
      case 0:
        to.add(DeviceOp::kFraction, 20 + to.random.below(81));
        break;
      case 1:
        to.add(DeviceOp::kFraction, 100);
        break;
      case 2:
        to.add(DeviceOp::kSqueeze, 30 + to.random.below(71));
        break;
      case 3:
        to.add(DeviceOp::kSqueeze, 100);
        break;
      case 4:
        to.add(DeviceOp::kEmptyCache);
        break;
      case 5:
        to.free_all(live);
        break;
      case 6:
        if (!live.empty()) to.add(DeviceOp::kRecordStream, live.back(), to.random.below(to.program.streams));
        break;
      default:
        break;
    }
  }
}

void capture(Writer& to) {
  to.program.streams = 2;
  std::vector<std::vector<Writer::Block>> kept(3);
  while (!to.full()) {
    const std::uint64_t pool = to.random.below(kept.size());
    if (to.random.one_in(4)) {
      to.free_all(kept[pool]);
      to.add(DeviceOp::kReleasePool, pool);
      if (to.random.one_in(2)) to.add(DeviceOp::kEmptyCache);
      continue;
    }
    const std::vector<Layer> layers = draw_layers(to.random, to.program.device_bytes / 16);
    to.add(DeviceOp::kBeginPool, pool, 0);
    std::vector<Writer::Block> inside;
    for (const Layer& layer : layers) {
      inside.push_back(to.allocate(layer.activation_bytes));
      if (layer.workspace_bytes != 0) to.borrow(layer.workspace_bytes);
      if (to.random.one_in(5)) to.borrow(layer.weight_bytes, 1);  // another stream, not captured
    }
    while (inside.size() > 2) to.free_any(inside);
    kept[pool].insert(kept[pool].end(), inside.begin(), inside.end());
    to.add(DeviceOp::kEndPool, pool);
    if (kept[pool].size() > 8) to.free_any(kept[pool]);
    for (int i = 0; i < 10; ++i) to.borrow(to.random.log_uniform(512, 32 * kMiB), to.random.below(2));
  }
}

}  // namespace

const char* shape_name(Shape shape) noexcept {
  constexpr const char* kNames[kShapeCount] = {"training", "inference", "uniform",
                                               "streams",  "tight",     "pools"};
  return kNames[static_cast<std::size_t>(shape)];
}

Shape shape_of_seed(std::uint64_t seed) noexcept {
  constexpr Shape kShapes[] = {Shape::kTraining,  Shape::kTraining, Shape::kTraining, Shape::kInference,
                               Shape::kInference, Shape::kUniform,  Shape::kUniform,  Shape::kStreams,
                               Shape::kTight,     Shape::kPools};
  return kShapes[seed % std::size(kShapes)];
}

DeviceProgram generate_device_program(std::uint64_t seed, std::size_t step_count) {
  Writer to(seed, step_count);
  to.program.malloc = to.random.one_in(5) ? 1 : 0;
  switch (shape_of_seed(seed)) {
    case Shape::kTraining:
      train(to);
      break;
    case Shape::kInference:
      infer(to);
      break;
    case Shape::kUniform:
      be_uniform(to, to.program.device_bytes / 2, kLargestBytes);
      break;
    case Shape::kStreams:
      stream(to);
      break;
    case Shape::kTight:
      press(to);
      break;
    case Shape::kPools:
      capture(to);
      break;
  }
  to.program.steps.resize(step_count);
  return std::move(to.program);
}

}  // namespace cistern::support
