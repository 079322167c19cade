// Bad use, each a clear typed error; and what environment variables ask for. Every test installs by itself.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "cistern/adapters/c10_cuda/environment.hpp"
#include "cistern/adapters/c10_cuda/torch_minor.hpp"
#include "cuda_torch/c10_cuda_world.hpp"
#include "support/temporary_folder.hpp"

namespace cistern::support {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Reason = InstallError::Reason;

Options reporting() {
  Options options;
  options.misuse = Misuse::kReport;
  return options;
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// What an installation is refused for.
std::pair<Reason, std::string> refusal(const Options& options = {}) {
  try {
    install_cuda(options);
  } catch (const InstallError& error) {
    return {error.reason(), error.what()};
  }
  ADD_FAILURE() << "installed";
  return {};
}

class C10CudaInstall : public ::testing::Test {
 protected:
  void SetUp() override {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    if (cca::get()->name() == "cistern") GTEST_SKIP() << "a test of its own process; ctest runs each by itself";
  }
};

TEST_F(C10CudaInstall, TwiceWithTheSameOptionsIsOnceAndWithOthersAnError) {
  install_cuda(reporting());
  auto* first = cca::get();
  install_cuda(reporting());
  EXPECT_EQ(cca::get(), first);
  Options other = reporting();
  other.limit = Amount{64 * kMiB, 0};
  const auto [reason, text] = refusal(other);
  EXPECT_EQ(reason, Reason::kInstalledOtherwise);
  EXPECT_THAT(text, ContainsRegex("installed [0-9]+\\.[0-9] s ago with other options"));
}

TEST_F(C10CudaInstall, AfterCudaWasInitialisedItIsRefusedSayingByWhomAndWhen) {
  cca::init(2);
  cca::raw_delete(cca::raw_alloc(kMiB));
  cca::raw_delete(cca::raw_alloc(kMiB));
  void* data = cca::raw_alloc(kMiB);
  const auto [reason, text] = refusal();
  EXPECT_EQ(reason, Reason::kInitialisedBefore);
  EXPECT_THAT(text, AllOf(HasSubstr("torch's allocator 'native'"), HasSubstr("since 3 allocations on device 0, of which it holds 1 blocks and 2 MiB")));
  EXPECT_EQ(cca::get()->name(), "native") << "nothing changed";
  cca::raw_delete(data);
}

TEST_F(C10CudaInstall, ATakeOverHandsPointersOfTheFormerAllocatorBackToIt) {
  cca::init(2);
  auto* native = cca::get();
  void* old = cca::raw_alloc(kMiB);
  c10::DataPtr old_tensor = native->allocate(kMiB);
  install_cuda(reporting(), IfInitialised::kTakeOver);
  EXPECT_EQ(cca::get()->name(), "cistern");
  void* data = cca::raw_alloc(kMiB);
  EXPECT_EQ(native->getDeviceStats(0).allocation[0].current, 2);
  cca::raw_delete(old);
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  fakecuda_hold(side.stream());
  cca::recordStream(old_tensor, side);
  old_tensor.clear();
  EXPECT_EQ(native->getDeviceStats(0).active[0].current, 1) << "the former allocator waits for the stream";
  fakecuda_release(side.stream());
  EXPECT_EQ(native->getDeviceStats(0).allocation[0].current, 0);
  EXPECT_EQ(cca::getDeviceStats(0).allocation[0].current, 1);
  cca::raw_delete(data);
}

TEST_F(C10CudaInstall, ATorchOfAnotherMinorIsRefusedNamingBothAndTheWaysOut) {
  const std::string version = torch_built_for();
  EXPECT_EQ(why_not_torch(version.substr(0, version.rfind('.')) + ".3"), "");
  EXPECT_THAT(why_not_torch("2.10.0"), AllOf(HasSubstr("built for torch " + version),
                                             HasSubstr("this process has torch 2.10.0"), HasSubstr("build cistern"),
                                             HasSubstr("cistern::c_abi")));
  EXPECT_THAT(why_not_torch(""), HasSubstr("cannot tell which torch"));
  EXPECT_EQ(running_torch_version(), version);
}

TEST_F(C10CudaInstall, AWrongConfigurationNamesTheKey) {
  setenv("CISTERN_CONF", "stratgy:growth", 1);
  EXPECT_THAT(error_of([] { install_cuda(); }), AllOf(HasSubstr("CISTERN_CONF"), HasSubstr("nearest is strategy")));
  EXPECT_EQ(cca::get()->name(), "native");
}

TEST_F(C10CudaInstall, ALimitLargerThanTheDeviceIsRefusedWhenTheDeviceIsKnown) {
  fakecuda_set_device_bytes(0, 256 * kMiB);
  Options options = reporting();
  options.limit = Amount{kGiB, 0};
  install_cuda(options);
  cca::init(2);
  const std::string text = "a limit of 1 GiB is more than CUDA device 0 has, 256 MiB";
  EXPECT_THAT(error_of([] { cca::raw_alloc(1); }), HasSubstr(text));
  EXPECT_THROW(cuda_allocator(0), std::out_of_range);
}

TEST_F(C10CudaInstall, ADeviceOutOfRangeIsNamed) {
  install_cuda(reporting());
  EXPECT_THROW(cuda_allocator(2), std::out_of_range);
  EXPECT_THAT(error_of([] { cuda_allocator(2); }), HasSubstr("there is no CUDA device 2; there are 2"));
}

TEST_F(C10CudaInstall, APointerThatIsNoLiveBlockIsOneClearError) {
  install_cuda(reporting());
  cca::init(2);
  int host = 0;
  EXPECT_THAT(error_of([&] { cca::raw_delete(&host); }), HasSubstr("which is no live CUDA block"));
  char* data = static_cast<char*>(cca::raw_alloc(kMiB));
  EXPECT_THAT(error_of([&] { cca::raw_delete(data + 512); }), HasSubstr("which is no live CUDA block"));
  EXPECT_EQ(cca::getDeviceStats(0).allocation[0].current, 1);
  cca::raw_delete(data);
  EXPECT_THAT(error_of([&] { cca::raw_delete(data); }), HasSubstr("freed before"));
  ::testing::internal::CaptureStderr();
  cca::get()->raw_deallocate(data);  // the deleter must not throw
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("freed twice, or never granted"));
}

TEST_F(C10CudaInstall, BadFreesEndTheProcessUnlessToldOtherwise) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // in a process of its own: a child of fork has no CUDA
  EXPECT_DEATH(
      {
        install_cuda();
        cca::init(2);
        void* data = cca::raw_alloc(kMiB);
        cca::raw_delete(data);
        cca::get()->raw_deallocate(data);
      },
      "no live CUDA block");
}

TEST_F(C10CudaInstall, AChildOfForkKeepsItsHandsOffAndSaysWhy) {
  install_cuda(reporting());
  cca::init(2);
  c10::DataPtr data = cca::get()->allocate(kMiB);
  const std::uint64_t calls = fakecuda_calls("*");
  const pid_t child = fork();
  if (child == 0) {
    data.clear();
    cca::emptyCache();
    const std::string text = error_of([] { cca::raw_alloc(kMiB); });
    const bool statistics = cca::getDeviceStats(0).allocation[0].current == 1;
    const bool quiet = fakecuda_calls("*") - fakecuda_calls("cudaGetDevice") <= calls;
    _exit(text.find("a child of fork cannot allocate CUDA memory") == std::string::npos ? 1
          : !statistics                                                                  ? 2
          : !quiet                                                                       ? 3
                                                                                         : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  void* later = cca::raw_alloc(kMiB);
  cca::raw_delete(later);
}

TEST_F(C10CudaInstall, WithoutVirtualMemoryAutoTakesMallocAndSaysSoOnce) {
  fakecuda_fail_call("cudaGetDriverEntryPointByVersion", 5, 1);  // an old driver: it lacks one of the functions
  install_cuda(reporting());
  cca::init(2);
  ::testing::internal::CaptureStderr();
  cca::raw_delete(cca::raw_alloc(kMiB));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("source:auto takes memory by cudaMalloc, because cu"), HasSubstr("no such function")));
  ::testing::internal::CaptureStderr();
  const c10::cuda::CUDAGuard guard(1);
  cca::raw_delete(cca::raw_alloc(kMiB));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(fakecuda_calls("cudaMalloc"), 2u);
}

TEST_F(C10CudaInstall, SourceVmmWithoutVirtualMemoryIsAnErrorNamingWhatIsMissing) {
  fakecuda_fail_call("cudaGetDriverEntryPointByVersion", 5, 1);
  Options options = reporting();
  options.source = SourceChoice::kVmm;
  install_cuda(options);
  cca::init(2);
  EXPECT_THAT(error_of([] { cca::raw_alloc(1); }), HasSubstr("the CUDA driver has no such function"));
}

TEST_F(C10CudaInstall, ARecordedRunLeavesATraceOfEachDeviceThatWasUsed) {
  static const TemporaryFolder folder;
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const char* given = std::getenv("CISTERN_TEST_TRACE");  // the folder of the parent, in the child
  const std::string path = given != nullptr ? given : folder.path("run.trace");
  setenv("CISTERN_TEST_TRACE", path.c_str(), 1);
  EXPECT_EXIT(
      {
        Options options = reporting();
        options.record = path;
        install_cuda(options);
        cca::init(2);
        cca::raw_delete(cca::raw_alloc(kMiB));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_NE(read_bytes(path + ".cuda:0"), "");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST_F(C10CudaInstall, SourceMallocTakesSegmentsFromTheRuntimeAndGivesThemBack) {
  Options options = reporting();
  options.source = SourceChoice::kMalloc;
  install_cuda(options);
  cca::init(2);
  cca::raw_delete(cca::raw_alloc(kMiB));
  EXPECT_GT(fakecuda_calls("cudaMalloc"), 0u);
  EXPECT_EQ(fakecuda_calls("cuMemCreate"), 0u);
  const auto segments = cca::snapshot().segments;
  ASSERT_FALSE(segments.empty());
  for (const auto& segment : segments) EXPECT_FALSE(segment.is_expandable);
  cca::emptyCache();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
}

// --- environment
// ------------------------------------------------------------------------------------------------------

class C10CudaEnvironment : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TF_FORCE_GPU_ALLOW_GROWTH", "CISTERN_CONF"}) {
      unsetenv(name);
    }
  }
};

std::vector<std::string> warnings_of(Options& options) {
  std::vector<std::string> warnings;
  options = with_environment(options, [&](const std::string& line) { warnings.push_back(line); });
  return warnings;
}

TEST_F(C10CudaEnvironment, TorchsFractionAndExpandableSegmentsAreHonouredAndTheRestAnswered) {
  setenv("PYTORCH_CUDA_ALLOC_CONF",
         "per_process_memory_fraction:0.5, expandable_segments:False,max_split_size_mb:128,"
         "roundup_power2_divisions:[256:1,512:2],garbage_collection_threshold:0.8",
         1);
  Options options;
  EXPECT_THAT(warnings_of(options),
              ElementsAre(HasSubstr("max_split_size_mb of PYTORCH_CUDA_ALLOC_CONF has no effect"),
                          HasSubstr("roundup_power2_divisions"), HasSubstr("garbage_collection_threshold")));
  ASSERT_TRUE(options.limit);
  EXPECT_DOUBLE_EQ(options.limit->share, 0.5);
  EXPECT_EQ(options.source, SourceChoice::kMalloc);
  setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:native,release_lock_on_cudamalloc:True,throw_on_cudamalloc_oom:True", 1);
  EXPECT_THAT(warnings_of(options), ElementsAre(HasSubstr("backend of PYTORCH_CUDA_ALLOC_CONF has no effect"),
                                                HasSubstr("release_lock_on_cudamalloc"), HasSubstr("limit:SIZE")));
}

TEST_F(C10CudaEnvironment, TensorFlowsVariableChoosesTheStrategyAndOursHasTheLastWord) {
  Options options;
  setenv("TF_FORCE_GPU_ALLOW_GROWTH", "false", 1);
  EXPECT_THAT(warnings_of(options), IsEmpty());
  EXPECT_EQ(options.strategy, Strategy::kPreallocate);
  setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 1);
  EXPECT_THAT(warnings_of(options), IsEmpty());
  EXPECT_EQ(options.strategy, Strategy::kGrowth);
  setenv("TF_FORCE_GPU_ALLOW_GROWTH", "perhaps", 1);
  EXPECT_THAT(warnings_of(options), ElementsAre(HasSubstr("TF_FORCE_GPU_ALLOW_GROWTH=perhaps has no effect")));
  setenv("TF_FORCE_GPU_ALLOW_GROWTH", "false", 1);
  setenv("CISTERN_CONF", "strategy:geometric", 1);
  EXPECT_THAT(warnings_of(options), IsEmpty());
  EXPECT_EQ(options.strategy, Strategy::kGeometric);
}

}  // namespace
}  // namespace cistern::support
