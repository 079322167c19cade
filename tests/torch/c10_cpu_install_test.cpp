// What needs a process of its own: each scene runs in a child that starts from nothing ("threadsafe" death
// tests), and ends as main returning does.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/observe/trace.hpp"
#include "support/temporary_folder.hpp"

namespace cistern {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;

class Installation : public ::testing::Test {
 protected:
  Installation() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void require(bool fact, const char* what) {
  if (fact) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(9);
}

bool installed_owns(const at::Tensor& tensor) {
  return install_cpu().find(reinterpret_cast<Address>(tensor.data_ptr())).has_value();
}

/// CISTERN_CONF of the scene: what is in the environment in the child is what its parent put there.
class Configured {
 public:
  explicit Configured(const std::string& text) { setenv("CISTERN_CONF", text.c_str(), 0); }
  ~Configured() { unsetenv("CISTERN_CONF"); }
};

/// A trace that the scene writes and the test reads.
class RecordedScene {
 public:
  RecordedScene() {
    if (getenv("CISTERN_CONF") != nullptr) return;  // we are the scene
    folder_.emplace();
    conf_.emplace("record:" + path());
  }
  std::string path() const { return folder_->path("trace"); }
  std::ptrdiff_t file_count() const { return folder_->file_count(); }

 private:
  std::optional<TemporaryFolder> folder_;
  std::optional<Configured> conf_;
};

std::ptrdiff_t count(const Trace& trace, EventKind kind, std::uint64_t bytes) {
  return std::count_if(trace.events.begin(), trace.events.end(),
                       [&](const Event& event) { return event.kind == kind && event.bytes == bytes; });
}

at::Tensor outlives_main;  // NOLINT: that is its point

TEST_F(Installation, LeavesEarlierTensorsWorkingAndReturnsThemWhereTheyCameFrom) {
  EXPECT_EXIT(
      {
        at::Tensor early = at::arange(1000);
        const c10::DeleterFnPtr torchs_own = early.storage().data_ptr().get_deleter();
        CachingAllocator& core = install_cpu();
        require(early.storage().data_ptr().get_deleter() == torchs_own, "the old tensor keeps its deleter");
        require(!installed_owns(early), "the old tensor is not ours");
        require(early.sum().item<std::int64_t>() == 499500, "the old tensor keeps its values");
        const at::Tensor late = early + 1;
        require(installed_owns(late), "a new tensor is ours");
        early.reset();
        require(core.stats().allocations.current == 1, "only the new one is counted");
        early = at::arange(1000);
        early.resize_({100000});
        require(installed_owns(early), "a storage that grows is ours");
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(Installation, LetsTensorsOutliveMain) {
  EXPECT_EXIT(
      {
        outlives_main = at::ones({10});
        static at::Tensor before_install = at::ones({1000});
        install_cpu();
        before_install = at::ones({1000});
        static const at::Tensor after_install = at::ones({1000000});
        outlives_main = after_install + 1;
        std::exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST_F(Installation, AppliesTheEnvironmentOnTopOfTheOptions) {
  const Configured conf("limit:64MiB,strategy:geometric");
  EXPECT_EXIT(
      {
        Options options;
        options.strategy = Strategy::kPreallocate;
        options.misuse = Misuse::kReport;
        const CachingAllocator& core = install_cpu(options);
        require(core.options().strategy == Strategy::kGeometric, "strategy from the environment");
        require(core.options().misuse == Misuse::kReport, "misuse from the options");
        require(core.limit_bytes() == 64 * kMiB, "limit from the environment");
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(Installation, RefusesAWrongEnvironmentByNameAndChangesNothing) {
  const Configured conf("limt:1GiB");
  EXPECT_EXIT(
      {
        c10::Allocator* const before = c10::GetCPUAllocator();
        try {
          install_cpu();
        } catch (const std::invalid_argument& error) {
          std::fprintf(stderr, "%s", error.what());
        }
        require(c10::GetCPUAllocator() == before, "torch's allocator is in place");
        std::exit(0);
      },
      ExitedWithCode(0),
      AllOf(HasSubstr("CISTERN_CONF"), HasSubstr("'limt'"), HasSubstr("the nearest is limit")));
}

TEST_F(Installation, RefusesATraceThatCannotBeWritten) {
  const Configured conf("record:/no such folder/trace");
  EXPECT_EXIT(
      {
        try {
          install_cpu();
        } catch (const FileError& error) {
          std::fprintf(stderr, "%s", error.what());
        }
        std::exit(0);
      },
      ExitedWithCode(0), "/no such folder/trace: cannot write");
}

void free_twice() {
  c10::Allocator* allocator = c10::GetCPUAllocator();
  void* data = allocator->raw_allocate(100);
  allocator->raw_deallocate(data);
  allocator->raw_deallocate(data);
}

TEST_F(Installation, EndsTheProcessOnADoubleFree) {
  EXPECT_EXIT((install_cpu(), free_twice()), KilledBySignal(SIGABRT), "no live CPU block: freed twice");
}

TEST_F(Installation, OnlyReportsADoubleFreeWhenAskedTo) {
  const Configured conf("misuse:report");
  EXPECT_EXIT(
      {
        CachingAllocator& core = install_cpu();
        free_twice();
        require(core.stats().allocations.current == 0, "one free counted");
        require(installed_owns(at::ones({100})), "still at work");
        core.audit();
        std::exit(0);
      },
      ExitedWithCode(0), "no live CPU block: freed twice");
}

TEST_F(Installation, WritesTheTraceWhenMainReturns) {
  const RecordedScene scene;
  EXPECT_EXIT(
      {
        install_cpu();
        for (int round = 0; round < 10000; ++round) at::empty({12321}, at::kByte);
        outlives_main = at::empty({12322}, at::kByte);
        std::exit(0);
      },
      ExitedWithCode(0), "^$");
  EXPECT_EQ(scene.file_count(), 1);
  const Trace trace = read_trace(scene.path());
  EXPECT_EQ(trace.info.granule_bytes, 2 * kMiB);
  EXPECT_EQ(count(trace, EventKind::kAllocate, 12321), 10000);
  EXPECT_EQ(count(trace, EventKind::kFree, 12321), 10000);
  EXPECT_EQ(count(trace, EventKind::kAllocate, 12322), 1);
  EXPECT_EQ(count(trace, EventKind::kFree, 12322), 0) << "freed after main";
}

TEST_F(Installation, KeepsAForkedChildOutOfTheTrace) {
  const RecordedScene scene;
  EXPECT_EXIT(
      {
        install_cpu();
        for (int round = 0; round < 100; ++round) at::empty({12321}, at::kByte);
        const pid_t child = fork();
        for (int round = 0; round < 10000; ++round) at::empty({child == 0 ? 777 : 12321}, at::kByte);
        if (child == 0) std::exit(0);
        int status = -1;
        require(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
        for (int round = 0; round < 10000; ++round) at::empty({12321}, at::kByte);
        std::exit(0);
      },
      ExitedWithCode(0), "^$");
  EXPECT_EQ(scene.file_count(), 1);
  const Trace trace = read_trace(scene.path());
  EXPECT_EQ(count(trace, EventKind::kAllocate, 12321), 20100);
  EXPECT_EQ(count(trace, EventKind::kAllocate, 777), 0);
}

TEST_F(Installation, CostsNothingBeforeIt) {
  EXPECT_EXIT(
      {
        require(cpu_call_cost().calls == 0, "no calls yet");
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cistern
