// Where MobileNetV2's memory comes from, and how much of it an image needs.
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <set>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/observe/replay.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "made_up_mnist.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/mobilenet_v2_inference.hpp"

namespace cistern::models {
namespace {

constexpr std::size_t kAlignment = 64;

/// What each recorded allocation asked for, as a program for replay. Ends with what is live freed.
class Recording : public EventSink {
 public:
  explicit Recording(CachingAllocator& core) : core_(core) { core_.start_recording(*this); }
  ReplayProgram stop() {
    core_.stop_recording();
    std::sort(events_.begin(), events_.end(),
              [](const Event& a, const Event& b) { return a.sequence < b.sequence; });
    const std::set<std::uint64_t> of_before = live_before_mark();
    ReplayProgramBuilder builder;
    bool begun = false;
    for (const Event& event : events_) {
      begun = begun || event.kind == EventKind::kMark;
      if (!begun || of_before.contains(event.address)) continue;
      std::optional<std::string> wrong;
      if (event.kind == EventKind::kAllocate)
        wrong = builder.allocate(event.address, event.bytes, event.stream);
      if (event.kind == EventKind::kFree) wrong = builder.free(event.address, event.bytes, event.stream);
      EXPECT_FALSE(wrong) << *wrong;
    }
    return builder.take("recording");
  }

 private:
  void consume(std::span<const Event> events) override {
    events_.insert(events_.end(), events.begin(), events.end());
  }
  // Weights and inputs; they stay, so that their addresses name nothing else.
  std::set<std::uint64_t> live_before_mark() const {
    std::set<std::uint64_t> live;
    for (const Event& event : events_) {
      if (event.kind == EventKind::kMark) break;
      if (event.kind == EventKind::kAllocate) live.insert(event.address);
      if (event.kind == EventKind::kFree) live.erase(event.address);
    }
    return live;
  }

  CachingAllocator& core_;
  std::vector<Event> events_;
};

struct Network {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> logits;
};

class MobileNetV2Memory : public ::testing::Test {
 protected:
  MobileNetV2Memory() : core_(install_cpu()), module_(MobileNetV2Options{}, seeded_generator(1)) {
    module_->eval();
    ModelCard card;
    card.labels.assign(1001, "a label");
    weights_ = weights_of(*module_, card);
  }
  ~MobileNetV2Memory() override { core_.audit(); }

  std::vector<Network> networks(int threads) {
    auto inference = std::make_shared<MobileNetV2Inference>(weights_, threads);
    return {{"inference", [inference](const at::Tensor& images) { return inference->logits(images); }},
            {"module", [this](const at::Tensor& images) { return module_->forward(images); }}};
  }
  static at::Tensor images(std::int64_t count) {
    return torch::rand({count, 3, 224, 224}).contiguous(at::MemoryFormat::ChannelsLast);
  }

  CachingAllocator& core_;
  MobileNetV2 module_;
  Weights weights_;
};

TEST_F(MobileNetV2Memory, ClassifyingABatchAfterTheFirstCallsNoSourceAndMakesNoNewBlockOfMemory) {
  for (const int threads : {1, 2}) {
    MobileNetV2Inference network(weights_, threads);
    for (const std::int64_t count : {1, 8}) {
      const at::Tensor input = images(count);
      network.logits(input);
      core_.reset_peak();
      const Stats before = core_.stats();
      for (int i = 0; i < 3; ++i) network.logits(input);
      const Stats after = core_.stats();
      EXPECT_EQ(after.source_calls.total(), before.source_calls.total()) << count;
      EXPECT_EQ(after.reserved.peak, before.reserved.current) << count;
      EXPECT_EQ(after.served[static_cast<int>(Rung::kGrow)], before.served[static_cast<int>(Rung::kGrow)])
          << count;
      EXPECT_EQ(after.allocations.current, before.allocations.current) << count;
      EXPECT_GT(after.allocations.allocated, before.allocations.allocated + 3 * 17 * 2) << count;
    }
  }
}

// Looks at every tensor of more than a number that any operator returns.
class ActivationObserver {
 public:
  explicit ActivationObserver(const CachingAllocator& core) {
    seen() = {&core, 0, {}};
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &look_at_outputs).needsOutputs(true));
  }
  ActivationObserver(const ActivationObserver&) = delete;
  ActivationObserver& operator=(const ActivationObserver&) = delete;
  ~ActivationObserver() { at::removeCallback(handle_); }

  struct Seen {
    const CachingAllocator* core = nullptr;
    int live_blocks = 0;
    std::set<std::string> foreign;
  };
  static Seen& seen() {
    static Seen seen;
    return seen;
  }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return nullptr; }
  static void look_at_outputs(const at::RecordFunction& function, at::ObserverContext*) {
    for (const c10::IValue& value : function.outputs()) {
      if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().storage().nbytes() == 0)
        continue;
      const auto address = reinterpret_cast<Address>(value.toTensor().storage().data());
      if (seen().core->find(address)) {
        ++seen().live_blocks;
      } else {
        seen().foreign.insert(function.name());
      }
    }
  }

  at::CallbackHandle handle_;
};

TEST_F(MobileNetV2Memory, EveryActivationIsALiveBlockOfOurs) {
  const torch::InferenceMode inference;
  const at::Tensor input = images(2);
  for (const Network& network : networks(2)) {
    const ActivationObserver observer(core_);
    network.logits(input);
    EXPECT_GE(ActivationObserver::seen().live_blocks, 2 * 17) << network.name;
    EXPECT_TRUE(ActivationObserver::seen().foreign.empty())
        << network.name << ": " << *ActivationObserver::seen().foreign.begin();
  }
}

TEST_F(MobileNetV2Memory, ThePeakOfActivationsIsAtMost15PercentAboveWhatIsLiveAtOnce) {
  const torch::InferenceMode inference;
  for (const Network& network : networks(1)) {
    for (const std::int64_t count : {1, 8}) {
      const at::Tensor input = images(count);
      network.logits(input);
      Recording recording(core_);
      core_.mark(1);
      network.logits(input);
      const ReplayProgram program = recording.stop();
      Options options;
      options.least_block_bytes = kAlignment;
      SimulatedSource source({.granule_bytes = 64 * kKiB, .capacity_bytes = kGiB});
      const ReplayResult result = replay(program, options, source);
      std::cout << network.name << ", batch " << count << ": live at once " << result.lower_bound_bytes
                << " bytes, reserved " << result.peak_reserved_bytes << ", ratio " << result.ratio << "\n";
      EXPECT_LE(result.ratio, 1.15) << network.name << ", batch " << count;
    }
  }
}

}  // namespace
}  // namespace cistern::models
