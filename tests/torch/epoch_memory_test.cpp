// Where the memory of a training epoch comes from. One process, one strategy (CISTERN_CONF), both loops.
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>

#include "apps/train/learner.hpp"
#include "apps/train/network.hpp"
#include "cistern/adapters/c10_cpu/install.hpp"
#include "made_up_mnist.hpp"

namespace cistern {
namespace {

using models::Mnist;

// Looks at the storage of every CPU tensor that any operator takes or returns, forward, backward and
// optimiser.
class StorageObserver {
 public:
  StorageObserver() {
    seen() = {};
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&look_at_inputs, &look_at_outputs).needsInputs(true).needsOutputs(true));
  }
  StorageObserver(const StorageObserver&) = delete;
  StorageObserver& operator=(const StorageObserver&) = delete;
  ~StorageObserver() { at::removeCallback(handle_); }

  struct Seen {
    std::size_t ours = 0;
    std::set<std::string> foreign;  ///< "operator: bytes" of each tensor whose memory is not ours.
  };
  static Seen& seen() {
    static Seen seen;
    return seen;
  }

 private:
  static void look_at(const at::RecordFunction& function, const at::Tensor& tensor) {
    static std::mutex mutex;
    if (!tensor.defined() || !tensor.is_cpu() || !tensor.has_storage() || tensor.storage().nbytes() == 0)
      return;
    const bool ours = tensor.storage().data_ptr().get_deleter() == c10::GetAllocator(c10::kCPU)->raw_deleter();
    const std::scoped_lock lock(mutex);
    if (ours) {
      ++seen().ours;
    } else {
      seen().foreign.insert(std::string(function.name()) + ": " + std::to_string(tensor.storage().nbytes()));
    }
  }
  template <class Values>
  static void look_at_all(const at::RecordFunction& function, const Values& values) {
    for (const c10::IValue& value : values) {
      if (value.isTensor()) look_at(function, value.toTensor());
      if (!value.isTensorList()) continue;
      for (const at::Tensor& tensor : value.toTensorVector()) look_at(function, tensor);
    }
  }
  static std::unique_ptr<at::ObserverContext> look_at_inputs(const at::RecordFunction& function) {
    look_at_all(function, function.inputs());
    return nullptr;
  }
  static void look_at_outputs(const at::RecordFunction& function, at::ObserverContext*) {
    look_at_all(function, function.outputs());
  }

  at::CallbackHandle handle_;
};

void train_epoch(train::Learner& learner, std::int64_t epoch) {
  constexpr std::int64_t kBatch = 128;
  const std::int64_t images = learner.training_images();
  const auto seed = static_cast<std::uint64_t>(epoch);
  learner.begin_epoch({epoch, 1e-3, torch::randperm(images, models::seeded_generator(seed), torch::kLong)});
  for (std::int64_t first = 0; first < images; first += kBatch) {
    learner.train_batch(first, std::min(kBatch, images - first));
  }
  learner.evaluate();
}

std::unique_ptr<train::Learner> make_learner(const Mnist& data, bool tuned) {
  const models::LearnedState start = train::initial_state(train::mnist_card({}), models::seeded_generator(0));
  return tuned ? train::make_tuned_learner(data, start, 128, 2) : train::make_plain_learner(data, start, at::kCPU);
}

// Four epochs and what is left after them.
void expect_an_epoch_to_live_on_ours(bool tuned) {
  CachingAllocator& allocator = install_cpu();
  const auto calls = [&] { return allocator.stats().source_calls.total(); };
  const bool preallocating = allocator.options().strategy == Strategy::kPreallocate;
  torch::empty({1});
  const std::uint64_t live_before = allocator.stats().requested.current;
  std::uint64_t calls_allowed = calls();
  {
    // Large enough that the granules of two shards weigh less than a tenth.
    const Mnist data = models::made_up_mnist(10'000, 2000);
    const std::unique_ptr<train::Learner> learner = make_learner(data, tuned);
    {
      const StorageObserver observer;
      train_epoch(*learner, 1);
      EXPECT_THAT(StorageObserver::seen().foreign, ::testing::IsEmpty());
      // Within an epoch the tuned loop asks torch for hardly anything.
      EXPECT_GT(StorageObserver::seen().ours, tuned ? 5u : 100u);
    }
    if (!preallocating) calls_allowed = calls();
    for (const std::int64_t epoch : {2, 3, 4}) train_epoch(*learner, epoch);
    EXPECT_EQ(calls(), calls_allowed);
  }
  allocator.audit();
  const Stats stats = allocator.stats();
  EXPECT_EQ(stats.requested.current, live_before) << "the model is gone, its memory is not";
  if (allocator.options().strategy == Strategy::kGrowth) {
    EXPECT_LE(static_cast<double>(stats.reserved.peak), 1.10 * static_cast<double>(stats.requested.peak));
  }
}

TEST(EpochMemory, OfThePlainLoopIsAllOurs) {
  expect_an_epoch_to_live_on_ours(false);
}
TEST(EpochMemory, OfTheTunedLoopIsAllOurs) {
  expect_an_epoch_to_live_on_ours(true);
}

}  // namespace
}  // namespace cistern
