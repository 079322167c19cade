// torch's XNNPACK operators over cistern.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>

#include <cstring>
#include <thread>
#include <vector>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/adapters/c10_cpu/mobile.hpp"

namespace cistern {
namespace {

constexpr std::size_t kGuardBefore = 64, kGuardAfter = 16;

template <class... Arguments>
c10::IValue call(const char* name, Arguments... arguments) {
  torch::jit::Stack stack{c10::IValue(std::move(arguments))...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack.at(0);
}

class Convolution {
 public:
  Convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t groups = 1)
      : weight_(at::randn({outputs, inputs / groups, kernel, kernel})),
        groups_(groups),
        padding_(kernel / 2) {
    using Numbers = std::vector<std::int64_t>;
    packed_ = call("prepacked::conv2d_clamp_prepack", weight_, c10::IValue(), Numbers{1, 1},
                   Numbers{padding_, padding_}, Numbers{1, 1}, groups_, at::Scalar(0.0), at::Scalar(6.0));
  }
  at::Tensor run(const at::Tensor& input) const {
    return call("prepacked::conv2d_clamp_run", input, packed_).toTensor();
  }
  at::Tensor expected(const at::Tensor& input) const {
    return at::conv2d(input, weight_, {}, 1, padding_, 1, groups_).clamp(0.0, 6.0);
  }

 private:
  at::Tensor weight_;
  std::int64_t groups_, padding_;
  c10::IValue packed_;
};

class MobileTensors : public ::testing::Test {
 protected:
  MobileTensors() : core_(install_cpu()) { at::manual_seed(3); }
  ~MobileTensors() override { core_.audit(); }

  void SetUp() override {
    if (c10::Dispatcher::singleton().findSchema({"prepacked::conv2d_clamp_prepack", ""})) return;
    ASSERT_GT(TORCH_VERSION_MINOR, 11) << "the torch that cistern is built for has these operators";
    GTEST_SKIP() << "torch " << TORCH_VERSION << " has no XNNPACK operators";
  }

  /// The block that holds all of the tensor's data and torch's guard bytes around them.
  bool is_live_block_with_guards(const at::Tensor& tensor) const {
    const auto block = reinterpret_cast<Address>(tensor.storage().data_ptr().get_context());
    const auto live = core_.find(block);
    return live && reinterpret_cast<Address>(tensor.data_ptr()) == block + kGuardBefore &&
           live->requested_bytes >= kGuardBefore + tensor.nbytes() + kGuardAfter;
  }

  static at::Tensor image() { return at::rand({1, 16, 12, 12}).contiguous(at::MemoryFormat::ChannelsLast); }

  CachingAllocator& core_;
};

TEST_F(MobileTensors, EveryActivationOfAChainIsALiveBlockAndTheResidualIsAddedInPlace) {
  const Convolution expand(16, 96, 1), depthwise(96, 96, 3, 96), project(96, 16, 1);
  const at::Tensor input = image();
  const MobileMemoryGuard guard;
  const at::Tensor expanded = expand.run(input);
  const at::Tensor convolved = depthwise.run(expanded);
  at::Tensor projected = project.run(convolved);
  for (const at::Tensor& made : {expanded, convolved, projected})
    EXPECT_TRUE(is_live_block_with_guards(made));
  const void* data = projected.data_ptr();
  projected.add_(input);
  EXPECT_EQ(projected.data_ptr(), data);
  EXPECT_TRUE(is_live_block_with_guards(projected));

  const at::Tensor expected = project.expected(depthwise.expected(expand.expected(input))) + input;
  EXPECT_LE((projected - expected).abs().max().item<float>(), 1e-4f);
}

TEST_F(MobileTensors, ChainedCallsMakeTheirOutputsOnlyAndTheSecondRoundNoNewBlocks) {
  const Convolution first(16, 24, 1), second(24, 16, 1);
  const at::Tensor input = image();
  const MobileMemoryGuard guard;
  const at::Tensor resident = first.run(input);
  second.run(resident);
  const Stats before = core_.stats();
  second.run(resident);
  const Stats after = core_.stats();
  EXPECT_EQ(after.allocations.allocated - before.allocations.allocated, 1u);
  EXPECT_EQ(after.source_calls.total(), before.source_calls.total());
}

TEST_F(MobileTensors, WithoutAGuardTheyAreNotOursAndAfterItNeither) {
  const Convolution layer(16, 16, 1);
  const at::Tensor input = image();
  const at::Tensor before = layer.run(input);
  EXPECT_FALSE(is_live_block_with_guards(before));
  { const MobileMemoryGuard guard; }
  EXPECT_FALSE(is_live_block_with_guards(layer.run(input)));
}

TEST_F(MobileTensors, WhatWasMadeBeforeTheGuardMayBeFreedUnderIt) {
  const Convolution layer(16, 16, 1);
  at::Tensor made_before = layer.run(image());
  const MobileMemoryGuard guard;
  const std::uint64_t freed = core_.stats().allocations.freed;
  made_before.reset();
  EXPECT_EQ(core_.stats().allocations.freed, freed);
}

TEST_F(MobileTensors, AnotherThreadUnderAGuardMayFreeThem) {
  const Convolution layer(16, 16, 1);
  const MobileMemoryGuard guard;
  at::Tensor made = layer.run(image());
  const std::uint64_t live = core_.stats().allocations.current;
  std::thread([&made] {
    const MobileMemoryGuard other;
    made.reset();
  }).join();
  EXPECT_EQ(core_.stats().allocations.current, live - 1);
}

TEST_F(MobileTensors, GuardsNest) {
  const Convolution layer(16, 16, 1);
  const at::Tensor input = image();
  const MobileMemoryGuard outer;
  { const MobileMemoryGuard inner; }
  EXPECT_TRUE(is_live_block_with_guards(layer.run(input)));
}

}  // namespace
}  // namespace cistern
