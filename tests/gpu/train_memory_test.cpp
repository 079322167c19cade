// What programs say of a CUDA device's memory, over the fake runtime, where no network can run: no cuDNN.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "apps/common/device.hpp"
#include "apps/common/memory_setup.hpp"
#include "cistern/base/units.hpp"

namespace cistern::apps {
namespace {

using ::testing::HasSubstr;

// An allocator serves a process; ctest gives each test its own.
const ChosenDevice kFirst{0, "as asked"};

at::Tensor on_device(std::int64_t bytes) {
  return at::empty({bytes}, at::device(at::kCUDA).dtype(at::kByte));
}

Options limited_to(std::size_t bytes) {
  Options options;
  options.limit = Amount{bytes, 0.0};
  return options;
}

TEST(TrainMemory, DevicePinnedAndHostMemoryStandSideBySide) {
  ASSERT_EQ(prepare_cuda(0), "");
  MemorySetup memory(kFirst, limited_to(64 * kMiB));
  const at::Tensor on_gpu = on_device(4 * kMiB);
  const at::Tensor on_host = at::empty({3 * kMiB}, at::kByte);
  const at::Tensor pinned = at::empty({2 * kMiB}, at::device(at::kCPU).dtype(at::kByte).pinned_memory(true));
  const MemoryReport run = memory.report(1.0);
  EXPECT_EQ(run.device, "cuda:0");
  ASSERT_EQ(run.memories.size(), 3u);
  EXPECT_EQ(run.memories[0].name, "cuda:0");
  EXPECT_EQ(run.memories[0].requested_bytes, 4 * kMiB);
  EXPECT_EQ(run.memories[0].limit_bytes, 64 * kMiB);
  EXPECT_EQ(run.memories[1].name, "pinned");
  EXPECT_EQ(run.memories[1].requested_bytes, 2 * kMiB);
  EXPECT_EQ(run.memories[1].limit_bytes, std::nullopt);
  EXPECT_EQ(run.memories[2].name, "host");
  EXPECT_GE(run.memories[2].requested_bytes, 3 * kMiB);
  std::ostringstream report;
  print_memory(report, run, "epoch");
  EXPECT_THAT(report.str(), HasSubstr("cuda:0 now"));
  EXPECT_THAT(report.str(), HasSubstr("pinned now"));
  EXPECT_THAT(report.str(), HasSubstr("64 MiB"));
}

TEST(TrainMemory, JsonKeepsAllMemoriesAndItsOlderFieldsAreThoseOfTheDeviceTrainedOn) {
  ASSERT_EQ(prepare_cuda(0), "");
  MemorySetup memory(kFirst, limited_to(64 * kMiB));
  const at::Tensor on_gpu = on_device(4 * kMiB);
  const nlohmann::json object = memory_to_json(memory.report(1.0), "epoch");
  const MemoryReport read = memory_from_json(object, "epoch");
  ASSERT_EQ(read.memories.size(), 3u);
  EXPECT_EQ(read.memories[0].peak_requested_bytes, 4 * kMiB);
  EXPECT_EQ(read.memories[0].limit_bytes, 64 * kMiB);
  EXPECT_EQ(read.time_share, std::nullopt);
  EXPECT_EQ(memory_to_json(read, "epoch"), object);
  EXPECT_EQ(object.at("requested_bytes"), 4 * kMiB);
}

TEST(TrainMemory, ALimitIsTheDevicesAndNotTheHosts) {
  ASSERT_EQ(prepare_cuda(0), "");
  MemorySetup memory(kFirst, limited_to(8 * kMiB));
  EXPECT_NO_THROW(at::empty({16 * kMiB}, at::kByte));
  EXPECT_THROW(on_device(16 * kMiB), c10::OutOfMemoryError);
}

TEST(TrainMemory, PreallocationIsOfTheDevice) {
  ASSERT_EQ(prepare_cuda(0), "");
  Options options;
  options.strategy = Strategy::kPreallocate;
  options.preallocate = Amount{32 * kMiB, 0.0};
  MemorySetup memory(kFirst, options);
  on_device(512);
  const MemoryReport run = memory.report(1.0);
  EXPECT_EQ(run.memories[0].reserved_bytes, 32 * kMiB);
  EXPECT_LT(run.memories.back().reserved_bytes, 32 * kMiB);
}

TEST(TrainMemory, UnderSystemTorchsOwnStatisticsAreShown) {
  ASSERT_EQ(prepare_cuda(0), "");
  MemorySetup memory(kFirst, std::nullopt);
  const at::Tensor on_gpu = on_device(4 * kMiB);
  memory.end_period(1);
  const at::Tensor later = on_device(64 * kMiB);
  const MemoryReport run = memory.report(1.0);
  ASSERT_EQ(run.memories.size(), 1u);
  EXPECT_EQ(run.memories[0].peak_requested_bytes, 68 * kMiB);
  EXPECT_EQ(run.memories[0].source_calls_after_first_period, 1u);
  EXPECT_EQ(run.served_by_rung, std::nullopt);
  std::ostringstream report;
  print_memory(report, run, "epoch");
  EXPECT_THAT(report.str(), HasSubstr("68 MiB"));
}

TEST(TrainMemory, ADeviceThatIsNotThereIsSaidSo) {
  EXPECT_THAT(prepare_cuda(2), HasSubstr("there are 2 CUDA devices"));
  EXPECT_THROW(choose_device("cuda:7"), std::runtime_error);
}

}  // namespace
}  // namespace cistern::apps
