// Device memory through the C interface, over the fake runtime: no torch anywhere.
#include "cistern/adapters/c_abi/cistern.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cistern/adapters/registry.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

using support::count_fakes;
using support::kFakeDeviceBytes;
using support::make_stream;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The process has one set of devices, made by the first test that allocates: the fake runtime is not reset here, and
/// each test gives everything back.
class CAbi : public ::testing::Test {
 protected:
  CAbi() {
    setenv("CISTERN_CONF", "misuse:report", 1);
    for (const int device : {0, 1}) fakecuda_set_device_bytes(device, kFakeDeviceBytes);
    cudaSetDevice(0);
  }

  void TearDown() override {
    fakecuda_release_all();
    fakecuda_clear_failures();
    for (const char* device : {"cuda:0", "cuda:1"}) {
      CachingAllocator* allocator = find_device(device);
      if (allocator == nullptr) continue;
      EXPECT_EQ(cistern_set_limit(device, nullptr), 0);
      EXPECT_EQ(cistern_trim(device, 0, nullptr), 0);
      allocator->audit();
      EXPECT_EQ(stats(device).live_count, 0u);
    }
    EXPECT_EQ(fakecuda_used_bytes(0) + fakecuda_used_bytes(1), 0u) << fakecuda_live_text();
    EXPECT_STREQ(fakecuda_misuses(), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error left for somebody else";
  }

  static cistern_stats stats(const char* device = "cuda:0") {
    cistern_stats out{};
    EXPECT_EQ(cistern_get_stats(device, &out, sizeof out), 0) << cistern_last_error();
    return out;
  }

  static void* allocate(std::size_t bytes, int device = 0, void* stream = nullptr) {
    void* data = cistern_alloc(bytes, device, stream);
    EXPECT_NE(data, nullptr) << cistern_last_error();
    return data;
  }

  /// What a free said on stderr, which has to be what cistern_last_error says, in one line.
  static std::string complaint(void* data, std::size_t bytes, int device = 0, void* stream = nullptr) {
    ::testing::internal::CaptureStderr();
    cistern_free(data, bytes, device, stream);
    const std::string text = ::testing::internal::GetCapturedStderr();
    if (text.empty()) return text;
    EXPECT_EQ(text, std::string(cistern_last_error()) + "\n");
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    return text;
  }
};

void* inside(void* data, std::size_t offset) { return static_cast<char*>(data) + offset; }

TEST_F(CAbi, GivesMemoryOfTheDeviceThatIsAskedWhicheverIsCurrent) {
  cudaSetDevice(1);
  void* first = allocate(3 * kMiB, 0);
  EXPECT_EQ(fakecuda_used_bytes(0), 4 * kMiB);
  EXPECT_EQ(fakecuda_used_bytes(1), 0u);
  void* second = allocate(5 * kMiB, 1);
  EXPECT_EQ(fakecuda_used_bytes(1), 6 * kMiB);
  EXPECT_EQ(stats("cuda:0").requested, 3 * kMiB);
  EXPECT_EQ(stats("cuda:1").requested, 5 * kMiB);
  EXPECT_EQ(support::current_device(), 1);
  EXPECT_EQ(complaint(first, 3 * kMiB, 0), "");
  EXPECT_EQ(complaint(second, 5 * kMiB, 1), "");
  EXPECT_EQ(allocate(3 * kMiB, 0), first) << "kept for the next request";
  cistern_free(first, 3 * kMiB, 0, nullptr);
}

TEST_F(CAbi, NothingIsNullAndNullIsNothing) {
  EXPECT_EQ(cistern_alloc(0, 0, nullptr), nullptr);
  EXPECT_EQ(cistern_alloc_or_throw(0, 0, nullptr), nullptr);
  EXPECT_EQ(complaint(nullptr, 0), "");
  EXPECT_EQ(complaint(nullptr, 17, 99), "");
  EXPECT_EQ(cistern_record_stream(nullptr, nullptr), 0);
}

TEST_F(CAbi, AFreeWithOtherBytesIsToldAndTheBlockStays) {
  void* data = allocate(1000);
  EXPECT_THAT(complaint(data, 1024), HasSubstr("with 1024 bytes, but 1000 were asked for"));
  EXPECT_EQ(stats().live_count, 1u);
  EXPECT_EQ(complaint(data, 1000), "");
}

TEST_F(CAbi, AFreeOnTheWrongDeviceIsToldAndTheBlockStays) {
  void* data = allocate(1000, 0);
  EXPECT_THAT(complaint(data, 1000, 1), HasSubstr("on device 1, but the block is of device 0"));
  EXPECT_THAT(complaint(data, 1000, 7), HasSubstr("on device 7, but the block is of device 0"));
  EXPECT_THAT(complaint(data, 1000, -1), HasSubstr("on device -1, but the block is of device 0"));
  EXPECT_EQ(stats().live_count, 1u);
  EXPECT_EQ(complaint(data, 1000, 0), "");
}

TEST_F(CAbi, AFreeOnAnotherStreamIsToldAndTheBlockStays) {
  cudaStream_t owner = make_stream();
  cudaStream_t other = make_stream();
  void* data = allocate(1000, 0, owner);
  EXPECT_THAT(complaint(data, 1000, 0, other), HasSubstr("but it was allocated on stream"));
  EXPECT_THAT(complaint(data, 1000, 0, nullptr), HasSubstr("but it was allocated on stream"));
  EXPECT_EQ(stats().live_count, 1u);
  EXPECT_EQ(complaint(data, 1000, 0, owner), "");
  cudaStreamDestroy(owner);
  cudaStreamDestroy(other);
}

TEST_F(CAbi, TheDefaultStreamMayBeCalledByEitherOfItsNames) {
  void* data = allocate(1000, 0, cudaStreamLegacy);
  EXPECT_EQ(complaint(data, 1000, 0, nullptr), "");
  data = allocate(1000, 0, nullptr);
  EXPECT_EQ(complaint(data, 1000, 0, cudaStreamLegacy), "");
}

TEST_F(CAbi, ABlockOfAStreamThatIsGoneIsFreedUnderTheHandleItHad) {
  cudaStream_t stream = make_stream();
  void* data = allocate(1000, 0, stream);
  cudaStreamDestroy(stream);
  EXPECT_EQ(complaint(data, 1000, 0, stream), "");
}

TEST_F(CAbi, ADoubleFreeIsToldWhetherTheMemoryIsStillThereOrNot) {
  void* data = allocate(4 * kMiB);
  EXPECT_EQ(complaint(data, 4 * kMiB), "");
  EXPECT_THAT(complaint(data, 4 * kMiB), HasSubstr("was freed before"));
  EXPECT_EQ(cistern_trim("cuda:0", 0, nullptr), 0);
  EXPECT_THAT(complaint(data, 4 * kMiB), HasSubstr("freed"));
}

TEST_F(CAbi, ADoubleFreeOfWhatAStreamStillUsesIsTold) {
  cudaStream_t other = make_stream();
  void* data = allocate(4 * kMiB);
  fakecuda_hold(other);
  fakecuda_touch(other, data, 4 * kMiB);
  EXPECT_EQ(cistern_record_stream(data, other), 0);
  EXPECT_EQ(complaint(data, 4 * kMiB), "");
  EXPECT_THAT(complaint(data, 4 * kMiB), HasSubstr("was freed before"));
  fakecuda_release(other);
}

TEST_F(CAbi, AddressesThatWereNeverGivenAreTold) {
  void* data = allocate(4 * kMiB);
  int own = 0;
  EXPECT_THAT(complaint(&own, sizeof own), HasSubstr("which cistern_alloc never gave"));
  EXPECT_THAT(complaint(inside(data, 512), 4 * kMiB - 512), HasSubstr("is inside a block"));
  EXPECT_EQ(cistern_record_stream(&own, nullptr), -1);
  EXPECT_THAT(cistern_last_error(), HasSubstr("no live block"));
  EXPECT_EQ(cistern_record_stream(inside(data, 512), nullptr), -1);
  EXPECT_EQ(stats().live_count, 1u);
  EXPECT_EQ(complaint(data, 4 * kMiB), "");
}

TEST_F(CAbi, MisuseEndsTheProcessUnlessItIsToBeReported) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // in a process of its own, with options of its own
  EXPECT_DEATH(
      {
        setenv("CISTERN_CONF", "misuse:abort", 1);
        void* data = cistern_alloc(1000, 0, nullptr);
        cistern_free(data, 1000, 0, nullptr);
        cistern_free(data, 1000, 0, nullptr);
      },
      "cistern: free of 0x[0-9a-f]+, which was freed before");
  EXPECT_DEATH(
      {
        unsetenv("CISTERN_CONF");
        int own = 0;
        cistern_free(&own, sizeof own, 0, nullptr);
      },
      "cistern: free of 0x[0-9a-f]+, which cistern_alloc never gave");
}

TEST_F(CAbi, AStreamThatUsesABlockDelaysWhoeverWouldGetItNext) {
  cudaStream_t other = make_stream();
  void* data = allocate(4 * kMiB);
  fakecuda_hold(other);
  fakecuda_touch(other, data, 4 * kMiB);
  EXPECT_EQ(cistern_record_stream(data, other), 0) << cistern_last_error();
  cistern_free(data, 4 * kMiB, 0, nullptr);
  EXPECT_EQ(stats().active, 4 * kMiB);
  void* next = allocate(4 * kMiB);
  EXPECT_NE(next, data);
  fakecuda_release(other);
  void* third = allocate(4 * kMiB);
  EXPECT_EQ(third, data);
  cistern_free(next, 4 * kMiB, 0, nullptr);
  cistern_free(third, 4 * kMiB, 0, nullptr);
}

TEST_F(CAbi, WithoutRecordStreamTheOwnerGetsItsBlockAtOnceAndAnotherStreamDoesNot) {
  cudaStream_t owner = make_stream();
  cudaStream_t other = make_stream();
  void* data = allocate(4 * kMiB, 0, owner);
  cistern_free(data, 4 * kMiB, 0, owner);
  void* elsewhere = allocate(4 * kMiB, 0, other);
  EXPECT_NE(elsewhere, data);
  EXPECT_EQ(allocate(4 * kMiB, 0, owner), data);
  cistern_free(data, 4 * kMiB, 0, owner);
  cistern_free(elsewhere, 4 * kMiB, 0, other);
}

TEST_F(CAbi, OutOfMemoryIsExplainedByBothEntries) {
  void* data = allocate(200 * kMiB);
  const std::uint64_t before = stats().failure_count;
  EXPECT_EQ(cistern_alloc(100 * kMiB, 0, nullptr), nullptr);
  const std::string text = cistern_last_error();
  EXPECT_THAT(text, AllOf(HasSubstr("cistern: out of memory on device 0 (vmm)"), HasSubstr("100 MiB"),
                          HasSubstr("largest free"), HasSubstr("largest holders"), HasSubstr("what would help")));
  try {
    cistern_alloc_or_throw(100 * kMiB, 0, nullptr);
    ADD_FAILURE() << "there is no room for that";
  } catch (const std::exception& error) {
    EXPECT_EQ(error.what(), text);
  }
  EXPECT_EQ(stats().failure_count - before, 2u);
  cistern_free(data, 200 * kMiB, 0, nullptr);
  data = allocate(100 * kMiB);
  cistern_free(data, 100 * kMiB, 0, nullptr);
}

TEST_F(CAbi, TheFunctionsForADeviceKnowIt) {
  void* data = allocate(3 * kMiB);
  ASSERT_EQ(cistern_set_limit("cuda:0", "16MiB"), 0) << cistern_last_error();
  EXPECT_EQ(stats().limit, 16 * kMiB);
  EXPECT_EQ(cistern_alloc(20 * kMiB, 0, nullptr), nullptr);
  EXPECT_THAT(cistern_last_error(), HasSubstr("the limit of 16 MiB"));
  EXPECT_EQ(cistern_set_limit("cuda:0", "1MiB"), -1);
  EXPECT_THAT(cistern_last_error(), HasSubstr("the least possible now is 4 MiB"));

  cistern_free(data, 3 * kMiB, 0, nullptr);
  EXPECT_EQ(cistern_reset_peak("cuda:0"), 0);
  EXPECT_EQ(stats().peak_allocated, 0u);
  const std::string path = ::testing::TempDir() + "c_abi_snapshot.pickle";
  EXPECT_EQ(cistern_snapshot("cuda:0", path.c_str()), 0) << cistern_last_error();
  EXPECT_GT(std::filesystem::file_size(path), 100u);
  std::filesystem::remove(path);
  std::uint64_t returned = 0;
  EXPECT_EQ(cistern_trim("cuda:0", 0, &returned), 0);
  EXPECT_EQ(returned, 4 * kMiB);
  EXPECT_EQ(stats().reserved, 0u);
}

TEST_F(CAbi, ADeviceIsKnownBeforeItIsUsedAndOneThatIsNotThereIsNamed) {
  cistern_free(allocate(1000, 0), 1000, 0, nullptr);
  EXPECT_EQ(stats("cuda:1").live_count, 0u);
  cistern_stats none{};
  EXPECT_EQ(cistern_get_stats("cuda:2", &none, sizeof none), -1);
  EXPECT_THAT(cistern_last_error(), HasSubstr("there is no device 'cuda:2'; there are cuda:0, cuda:1"));
  for (const int device : {2, -1, 1000}) {
    EXPECT_EQ(cistern_alloc(1000, device, nullptr), nullptr);
    EXPECT_THAT(cistern_last_error(),
                HasSubstr("there is no CUDA device " + std::to_string(device) + "; there are 2"));
  }
}

TEST_F(CAbi, AFaultOfTheDriverIsNamedAndTheNextCallWorks) {
  cistern_free(allocate(1000), 1000, 0, nullptr);
  fakecuda_fail_call("cuMemCreate", 1, cudaErrorUnknown);
  EXPECT_EQ(cistern_alloc(64 * kMiB, 0, nullptr), nullptr);
  EXPECT_THAT(cistern_last_error(), HasSubstr("cistern: cuMemCreate failed"));
  cudaGetLastError();
  cistern_free(allocate(64 * kMiB), 64 * kMiB, 0, nullptr);
}

TEST_F(CAbi, AFaultOfTheDriverDuringAFreeIsToldToTheNextAllocation) {
  cudaStream_t other = make_stream();
  void* data = allocate(4 * kMiB);
  ASSERT_EQ(cistern_record_stream(data, other), 0);
  fakecuda_fail_call("cudaEventRecord", 1, cudaErrorUnknown);
  EXPECT_EQ(complaint(data, 4 * kMiB), "") << "the free is done, and the block waits";
  cudaGetLastError();
  EXPECT_EQ(cistern_alloc(1000, 0, nullptr), nullptr);
  EXPECT_THAT(cistern_last_error(), HasSubstr("cistern: of an earlier call: cudaEventRecord failed"));
  cistern_free(allocate(1000), 1000, 0, nullptr);
}

TEST_F(CAbi, AHandleOfNoStreamIsRefused) {
  cudaStream_t gone = make_stream();
  cudaStreamDestroy(gone);
  EXPECT_EQ(cistern_alloc(1000, 0, gone), nullptr);
  EXPECT_THAT(cistern_last_error(), HasSubstr("cistern: cudaStreamGetId failed"));
  cudaGetLastError();
}

TEST_F(CAbi, AWrongConfigurationIsToldByEachCallAndNothingIsMade) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("CISTERN_CONF", "limt:1GiB", 1);
        for (int i = 0; i < 2; ++i) {
          if (cistern_alloc(1000, 0, nullptr) != nullptr) std::exit(1);
          std::fprintf(stderr, "%s\n", cistern_last_error());
        }
        std::exit(registered_devices().empty() && registered_families().empty() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "CISTERN_CONF: .*limt.*\n.*CISTERN_CONF: .*limt");
}

TEST_F(CAbi, TheLimitOfTheConfigurationIsInForceFromTheFirstAllocation) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("CISTERN_CONF", "limit:8MiB,source:malloc", 1);
        if (cistern_alloc(20 * kMiB, 0, nullptr) != nullptr) std::exit(1);
        std::fprintf(stderr, "%s\n", cistern_last_error());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "\\(malloc\\): the limit of 8 MiB");
}

TEST_F(CAbi, TheTraceThatTheConfigurationAsksForIsThereWhenMainHasReturned) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::string path = ::testing::TempDir() + "c_abi_trace";
  std::filesystem::remove(path + ".cuda:1");
  EXPECT_EXIT(
      {
        setenv("CISTERN_CONF", ("record:" + path).c_str(), 1);
        cistern_free(cistern_alloc(1000, 1, nullptr), 1000, 1, nullptr);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(std::filesystem::remove(path + ".cuda:1"));
}

TEST_F(CAbi, WhereAnotherPlugServesCudaThereIsNoSecondCache) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        DeviceFamily plug;
        plug.kind = "cuda";
        plug.names = [] { return std::vector<std::string>{"cuda:0"}; };
        register_family(std::move(plug));
        if (cistern_alloc(1000, 0, nullptr) != nullptr) std::exit(1);
        std::fprintf(stderr, "%s\n", cistern_last_error());
        std::exit(fakecuda_used_bytes(0) == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "is served by cistern's plug for torch; cistern_alloc would be a second cache");
}

TEST_F(CAbi, AChildOfForkFreesNothingAllocatesNothingAndReadsStatistics) {
  void* data = allocate(3 * kMiB);
  const pid_t child = fork();
  if (child == 0) {
    fakecuda_reset_calls();
    cistern_free(data, 3 * kMiB, 0, nullptr);
    cistern_free(data, 3 * kMiB, 0, nullptr);
    cistern_stats seen{};
    if (cistern_record_stream(data, nullptr) != 0) _exit(1);
    if (cistern_get_stats("cuda:0", &seen, sizeof seen) != 0 || seen.requested != 3 * kMiB) _exit(2);
    if (cistern_alloc(1000, 0, nullptr) != nullptr) _exit(3);
    const std::string text = cistern_last_error();
    if (text.find("a child of fork cannot allocate CUDA memory") == std::string::npos) _exit(4);
    _exit(fakecuda_calls("*") == 0 ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  EXPECT_EQ(complaint(data, 3 * kMiB), "") << "the parent goes on";
}

TEST_F(CAbi, ThreadsAllocateFreeAndRecordOnTwoDevicesAtOnce) {
  const auto work = [](int device) {
    cudaSetDevice(device);
    cudaStream_t own = make_stream();
    cudaStream_t other = make_stream();
    for (int i = 0; i < 300; ++i) {
      const auto bytes = static_cast<std::size_t>(1 + i % 7) * 512 * kKiB;
      void* data = allocate(bytes, device, own);
      if (i % 3 == 0) {
        fakecuda_touch(other, data, bytes);
        EXPECT_EQ(cistern_record_stream(data, other), 0);
      }
      cistern_free(data, bytes, device, own);
      if (i % 50 == 49) cistern_trim(device == 0 ? "cuda:0" : "cuda:1", 0, nullptr);
    }
  };
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (const int device : {0, 1, 0, 1}) threads.emplace_back(work, device);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace cistern
