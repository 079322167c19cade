// torch's CPU tensors over cistern, in one process that installed it before its first tensor.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "support/host_allocations.hpp"
#include "support/validator.hpp"

namespace cistern {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

at::Tensor bytes_tensor(std::size_t bytes) {
  return at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
}

Address address_of(const at::Tensor& tensor) {
  return reinterpret_cast<Address>(tensor.storage().data());
}

std::string out_of_memory_text(std::size_t bytes) {
  try {
    bytes_tensor(bytes);
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all_pages = 0;
  std::size_t resident_pages = 0;
  statm >> all_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class CpuTensors : public ::testing::Test {
 protected:
  CpuTensors() : core_(install_cpu()) {}
  ~CpuTensors() override { core_.audit(); }

  bool is_ours(const at::Tensor& tensor) const {
    return tensor.storage().data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter() &&
           core_.find(address_of(tensor)).has_value();
  }

  CachingAllocator& core_;
};

TEST_F(CpuTensors, AllHaveOurDeleterWhicheverOperatorMadeThem) {
  const at::Tensor image = at::rand({2, 3, 16, 16}).requires_grad_();
  const at::Tensor weight = at::rand({4, 3, 3, 3}).requires_grad_();
  const at::Tensor convolved = at::conv2d(image, weight);
  convolved.sum().backward();
  const at::Tensor square = at::ones({32, 32});
  const std::vector<at::Tensor> tensors{image,
                                        weight,
                                        convolved,
                                        image.grad(),
                                        weight.grad(),
                                        square.mm(square),
                                        at::cat({square, square}),
                                        square.clone(),
                                        square.t().contiguous(),
                                        square.to(at::kDouble),
                                        at::arange(100),
                                        at::scalar_tensor(1.0),
                                        at::empty({0}).resize_({100})};
  for (std::size_t index = 0; index < tensors.size(); ++index) EXPECT_TRUE(is_ours(tensors[index])) << index;
}

TEST_F(CpuTensors, ReturnEveryByteWhenTheyGo) {
  const std::uint64_t before = core_.stats().requested.current;
  {
    const at::Tensor sum = at::rand({512, 512}) + at::rand({512, 512});
    EXPECT_GE(core_.stats().requested.current, before + 512 * 512 * sizeof(float));
  }
  EXPECT_EQ(core_.stats().requested.current, before);
}

TEST_F(CpuTensors, ComeFromTheAllocatorThatTorchNamesForTheCpu) {
  c10::Allocator* allocator = c10::GetAllocator(c10::kCPU);
  EXPECT_EQ(allocator, c10::GetCPUAllocator());
  const c10::DataPtr data = allocator->allocate(1000);
  EXPECT_EQ(data.device(), c10::Device(c10::kCPU));
  ASSERT_TRUE(core_.find(reinterpret_cast<Address>(data.get())));
  EXPECT_EQ(core_.find(reinterpret_cast<Address>(data.get()))->requested_bytes, 1000u);
}

TEST_F(CpuTensors, StayOursWhenALesserPriorityIsSet) {
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 0);
  EXPECT_TRUE(is_ours(bytes_tensor(100)));
}

TEST_F(CpuTensors, AreServedByTheFirstInstallationAfterASecond) {
  Options others;
  others.strategy = Strategy::kGeometric;
  EXPECT_EQ(&install_cpu(others), &core_);
  EXPECT_EQ(core_.options().strategy, Strategy::kGrowth);
  EXPECT_TRUE(is_ours(bytes_tensor(100)));
}

TEST_F(CpuTensors, StartAtMultiplesOf64) {
  std::vector<at::Tensor> tensors;
  for (std::size_t bytes = 1; bytes < 5000; bytes += 37) tensors.push_back(bytes_tensor(bytes));
  tensors.push_back(bytes_tensor(10 * kMiB));
  for (const at::Tensor& tensor : tensors)
    EXPECT_EQ(address_of(tensor) % 64, 0u) << tensor.nbytes() << " bytes";
}

TEST_F(CpuTensors, OfOneNumberTake64Bytes) {
  const at::Tensor scalar = at::scalar_tensor(1.0);
  ASSERT_TRUE(core_.find(address_of(scalar)));
  EXPECT_EQ(core_.find(address_of(scalar))->granted_bytes, 64u);
}

TEST_F(CpuTensors, WithoutBytesTakeNothing) {
  const std::uint64_t before = core_.stats().allocations.allocated;
  const at::Tensor empty = at::empty({0, 3});
  const c10::DataPtr data = c10::GetCPUAllocator()->allocate(0);
  EXPECT_EQ(data.get(), nullptr);
  EXPECT_EQ(data.get_deleter(), c10::GetCPUAllocator()->raw_deleter());
  EXPECT_EQ(empty.storage().data(), nullptr);
  EXPECT_EQ(core_.stats().allocations.allocated, before);
}

TEST_F(CpuTensors, RawPointersAreGrantedAndTakenBack) {
  c10::Allocator* allocator = c10::GetCPUAllocator();
  void* data = allocator->raw_allocate(12345);
  std::memset(data, 1, 12345);
  ASSERT_TRUE(core_.find(reinterpret_cast<Address>(data)));
  allocator->raw_deallocate(data);
  EXPECT_FALSE(core_.find(reinterpret_cast<Address>(data)));
  allocator->raw_deallocate(nullptr);
}

TEST_F(CpuTensors, CloneCopiesIntoABlockOfOurs) {
  const std::string text = "what is copied";
  const c10::DataPtr copy = c10::GetCPUAllocator()->clone(text.data(), text.size());
  EXPECT_EQ(std::string(static_cast<const char*>(copy.get()), text.size()), text);
  EXPECT_TRUE(core_.find(reinterpret_cast<Address>(copy.get())));
}

TEST_F(CpuTensors, MayBeFreedByAnyThread) {
  const std::uint64_t before = core_.stats().requested.current;
  std::vector<std::vector<at::Tensor>> handed(4);
  for (std::size_t index = 0; index < 4000; ++index)
    handed[index % 4].push_back(bytes_tensor(1 + index * 17));
  std::vector<std::thread> threads;
  for (std::vector<at::Tensor>& tensors : handed) {
    threads.emplace_back([&tensors] {
      for (at::Tensor& tensor : tensors)
        tensor = bytes_tensor(tensor.nbytes());  // one of its own for one of ours
      thread_local at::Tensor last;              // goes when the thread does
      last = bytes_tensor(100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  handed.clear();
  EXPECT_EQ(core_.stats().requested.current, before);
}

class CountingSink final : public EventSink {
 public:
  void consume(std::span<const Event> events) override { count += events.size(); }
  std::size_t count = 0;
};

TEST_F(CpuTensors, GoWithoutThrowingWhenTheHostHasNoMemoryToRecordIt) {
  CountingSink sink;
  const std::uint64_t before = core_.stats().allocations.current;
  std::vector<c10::DataPtr> blocks;
  for (int count = 0; count < 10000; ++count) blocks.push_back(c10::GetCPUAllocator()->allocate(100));
  core_.start_recording(sink);
  {
    const support::FailingHostAllocations no_memory(1);
    for (c10::DataPtr& block : blocks) block.clear();
  }
  core_.stop_recording();
  EXPECT_EQ(core_.stats().allocations.current, before);
  EXPECT_GE(sink.count, 2 * blocks.size()) << "those that were live, and their frees";
}

class LedgerOfReports final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* data, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t total_reserved, c10::Device device) override {
    EXPECT_TRUE(device.is_cpu());
    EXPECT_LE(total_allocated, total_reserved);
    live[data] += bytes;
    ++report_count;
  }
  void reportOutOfMemory(std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    refused_bytes = bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::map<void*, std::int64_t> live;
  std::uint64_t report_count = 0;
  std::int64_t refused_bytes = 0;
};

TEST_F(CpuTensors, TellTheMemoryProfilerOfEveryAllocationAndFree) {
  const auto reports = std::make_shared<LedgerOfReports>();
  const std::uint64_t calls_before = cpu_call_cost().calls;
  {
    const c10::DebugInfoGuard profiling(c10::DebugInfoKind::PROFILER_STATE, reports);
    const at::Tensor kept = bytes_tensor(1000);
    EXPECT_EQ(reports->live[kept.data_ptr()], 1000);
    for (int round = 0; round < 10; ++round) at::ones({100}).add(1);
    out_of_memory_text(std::size_t{1} << 60);
  }
  EXPECT_EQ(reports->report_count, cpu_call_cost().calls - calls_before);
  EXPECT_EQ(reports->refused_bytes, std::int64_t{1} << 60);
  for (const auto& [data, bytes] : reports->live) EXPECT_EQ(bytes, 0) << data;
}

TEST_F(CpuTensors, OverTheLimitFailWithTheWholeExplanationAndSmallerOnesAreServed) {
  const at::Tensor holder = bytes_tensor(40 * kMiB);
  ASSERT_TRUE(core_.set_limit(64 * kMiB));
  EXPECT_THAT(
      out_of_memory_text(100 * kMiB),
      AllOf(HasSubstr("out of memory"), HasSubstr("asked             100 MiB"), HasSubstr("largest free"),
            HasSubstr("reserved"), HasSubstr("limit             64 MiB"), HasSubstr("largest holders"),
            HasSubstr("40 MiB in 1 block"), HasSubstr("what would help"), HasSubstr("a limit of")));
  EXPECT_TRUE(is_ours(bytes_tensor(16 * kMiB)));
  EXPECT_TRUE(is_ours(bytes_tensor(1)));
  core_.clear_limit();
  EXPECT_TRUE(is_ours(bytes_tensor(100 * kMiB)));
  core_.trim();
}

TEST_F(CpuTensors, OfImpossibleSizesFailAsOutOfMemory) {
  for (const std::size_t bytes : {std::size_t{1} << 62, std::size_t{1} << 63, ~std::size_t{0}}) {
    EXPECT_THROW((void)c10::GetCPUAllocator()->allocate(bytes), c10::OutOfMemoryError) << bytes;
  }
  EXPECT_TRUE(is_ours(bytes_tensor(100)));
}

TEST_F(CpuTensors, NeverReserveMoreThanTheLimitAtAnyEvent) {
  core_.trim();
  support::Validator validator(core_.source_traits(), core_.options().least_block_bytes);
  ASSERT_TRUE(core_.set_limit(core_.stats().reserved.current + 32 * kMiB));
  core_.start_recording(validator);
  int refused_count = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<at::Tensor> tensors;
    try {
      for (std::size_t bytes = 1000;; bytes = bytes * 3 / 2 + static_cast<std::size_t>(round)) {
        tensors.push_back(bytes_tensor(bytes));
      }
    } catch (const c10::OutOfMemoryError&) {
      ++refused_count;
    }
  }
  core_.stop_recording();
  core_.clear_limit();
  validator.finish();
  EXPECT_EQ(validator.violation().value_or("none"), "none");
  EXPECT_EQ(refused_count, 20);
  EXPECT_GE(validator.out_of_memory_count(), 20u);
}

TEST_F(CpuTensors, GiveTheirPagesBackToTheSystemOnTrim) {
  bytes_tensor(256 * kMiB).fill_(1);
  const std::size_t cached = resident_bytes();
  EXPECT_GE(core_.trim(), 256 * kMiB);
  EXPECT_LT(resident_bytes() + 250 * kMiB, cached);
}

TEST_F(CpuTensors, HaveTheirCallsCountedAndTimed) {
  const CallCost before = cpu_call_cost();
  for (int round = 0; round < 1000; ++round) bytes_tensor(100);
  const CallCost after = cpu_call_cost();
  EXPECT_EQ(after.calls - before.calls, 2000u);
  EXPECT_GT(after.seconds, before.seconds);
  EXPECT_LT(after.seconds - before.seconds, 1.0);
}

TEST_F(CpuTensors, WorkInAChildForkedWhileThreadsAllocate) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&stop] {
      for (std::size_t bytes = 1; !stop; bytes = bytes * 5 / 3 % (4 * kMiB) + 1) bytes_tensor(bytes);
    });
  }
  const at::Tensor inherited = bytes_tensor(1000);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);  // a lock held for ever
      at::Tensor copy = inherited;
      for (std::size_t bytes = 1; bytes < 64 * kMiB; bytes = bytes * 2 + 1) bytes_tensor(bytes);
      core_.audit();
      _exit(core_.find(address_of(copy)) ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "round " << round;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CpuTensors, AreMultipliedByTorchsOwnBlas) {
  Dl_info blas{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "sgemm_"), &blas), 0);
  EXPECT_THAT(blas.dli_fname, HasSubstr("libtorch_cpu"));
}

}  // namespace
}  // namespace cistern
