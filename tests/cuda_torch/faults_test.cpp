// Each driver call of three scenarios fails once, through the plug: as if memory had run out, and otherwise.
// After each fault every promise holds, the error names the call, the same request is served once the driver
// works again, and at the end nothing of the driver is left.
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

constexpr std::size_t kFaultDeviceBytes = 64 * kMiB;
constexpr c10::MempoolId_t kPool{0, 7};

/// A call that fails, once.
struct Fault {
  std::string function;
  std::uint64_t nth = 0;
  int code = 0;

  std::string text() const {
    return "call " + std::to_string(nth) + " of " + function + " fails with " + std::to_string(code);
  }
};

/// Of both faces of the driver.
constexpr int kOutOfMemory = 2;
constexpr int kUnknown = 999;

/// An allocator of its own, whose failing calls are made again with a driver that works.
class Plug {
 public:
  explicit Plug(SourceChoice source) {
    Options options;
    options.source = source;
    options.misuse = Misuse::kReport;
    allocator_ =
        std::make_unique<CudaAllocator>(*DriverApi::from_process(), options, nullptr, [](CudaDevice&) {});
    allocator_->init(2);
  }

  CudaAllocator& allocator() { return *allocator_; }

  /// Until it succeeds: that is at the second try at the latest, as there is one fault.
  void attempt(const char* what, const std::function<void()>& call) {
    try {
      call();
      return;
    } catch (const c10::OutOfMemoryError& error) {
      errors_ += std::string("out of memory: ") + error.what_without_backtrace() + "\n";
    } catch (const c10::Error& error) {
      errors_ += std::string(error.what_without_backtrace()) + "\n";
    }
    fakecuda_clear_failures();
    audit();
    try {
      call();
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << " still fails when the driver works again: " << error.what();
    }
  }

  void* allocate(std::size_t bytes, cudaStream_t stream = nullptr) {
    void* data = nullptr;
    attempt("allocate", [&] { data = allocator_->raw_alloc_with_stream(bytes, stream); });
    EXPECT_NE(data, nullptr);
    return data;
  }
  void free(void* data) {
    attempt("free", [&] { allocator_->raw_delete(data); });
  }
  void record_stream(void* data, const c10::cuda::CUDAStream& stream) {
    attempt("recordStream", [&] {
      c10::DataPtr view(data, data, allocator_->raw_deleter(), stream.device());
      const auto keep = [](c10::DataPtr* lent) { lent->release_context(); };
      const std::unique_ptr<c10::DataPtr, decltype(keep)> lent(&view, keep);
      allocator_->recordStream(view, stream);
    });
  }
  void empty_cache(c10::MempoolId_t pool = {0, 0}) {
    attempt("emptyCache", [&] { allocator_->emptyCache(pool); });
  }

  void audit() {
    for (int index : {0, 1}) {
      if (CudaDevice* device = allocator_->devices().find(index)) device->allocator().audit();
    }
  }

  /// What was thrown, and what was kept as it could not be thrown.
  std::string errors() {
    for (int index : {0, 1}) {
      CudaDevice* device = allocator_->devices().find(index);
      if (device == nullptr) continue;
      take(device->fences().faults());
      if (device->vmm() != nullptr) take(device->vmm()->faults());
      if (device->malloc() != nullptr) take(device->malloc()->faults());
    }
    return errors_;
  }

  std::size_t reserved_bytes() {
    return static_cast<std::size_t>(allocator_->getDeviceStats(0).reserved_bytes[0].current);
  }

 private:
  void take(KeptFaults& faults) {
    if (const auto error = faults.take()) errors_ += std::string("kept: ") + error->what() + "\n";
  }

  std::unique_ptr<CudaAllocator> allocator_;
  std::string errors_;
};

struct Scenario {
  const char* name;
  SourceChoice source;
  void (*run)(Plug& plug);
};

void grow_by_granules(Plug& plug) {
  void* little = plug.allocate(512);
  void* some = plug.allocate(5 * kMiB);
  void* more = plug.allocate(21 * kMiB);
  plug.free(some);
  void* again = plug.allocate(9 * kMiB);
  plug.free(more);
  plug.empty_cache();
  void* most = plug.allocate(40 * kMiB);
  plug.free(little);
  plug.free(again);
  plug.free(most);
  plug.attempt("setMemoryFraction", [&] { plug.allocator().setMemoryFraction(0.5, 0); });
  plug.free(plug.allocate(30 * kMiB));
}

void trim_segments(Plug& plug) {
  void* first = plug.allocate(20 * kMiB);
  void* second = plug.allocate(20 * kMiB);
  void* little = plug.allocate(1000);
  plug.free(first);
  plug.free(second);
  void* large = plug.allocate(50 * kMiB);  // both segments have to go first
  plug.free(large);
  plug.empty_cache();
  plug.free(plug.allocate(30 * kMiB));
  plug.free(little);
}

const c10::cuda::CUDAStream& stream_of_test(int number) {
  static const c10::cuda::CUDAStream streams[] = {c10::cuda::getStreamFromPool(false, 0),
                                                  c10::cuda::getStreamFromPool(false, 0)};
  return streams[number];
}

void share_between_streams(Plug& plug) {
  const auto& main = stream_of_test(0);
  const auto& side = stream_of_test(1);
  void* outside = plug.allocate(3 * kMiB, main.stream());
  plug.attempt("beginAllocateToPool", [&] {
    plug.allocator().beginAllocateToPool(0, kPool,
                                         [&](cudaStream_t stream) { return stream == main.stream(); });
  });
  void* inside = plug.allocate(5 * kMiB, main.stream());
  void* elsewhere = plug.allocate(7 * kMiB, side.stream());
  plug.attempt("endAllocateToPool", [&] { plug.allocator().endAllocateToPool(0, kPool); });
  fakecuda_hold(side.stream());
  for (void* data : {outside, inside}) {
    plug.record_stream(data, side);
    fakecuda_touch(side.stream(), data, kMiB);
  }
  plug.free(outside);  // pending, as the side stream waits
  plug.free(inside);
  void* next = plug.allocate(3 * kMiB, main.stream());
  fakecuda_release(side.stream());
  void* after = plug.allocate(3 * kMiB, main.stream());
  plug.free(elsewhere);
  plug.free(next);
  plug.free(after);
  plug.attempt("releasePool", [&] { plug.allocator().releasePool(0, kPool); });
  plug.empty_cache(kPool);
  void* large = plug.allocate(55 * kMiB, side.stream());  // what the main stream left has to go first
  plug.free(large);
}

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

constexpr Scenario kScenarios[] = {{"growth with VMM", SourceChoice::kVmm, grow_by_granules},
                                   {"malloc with trim", SourceChoice::kMalloc, trim_segments},
                                   {"two streams with pools", SourceChoice::kVmm, share_between_streams}};

struct Outcome {
  std::string errors;  ///< Thrown or kept.
  std::string calls;   ///< Name and count in each line.
};

/// Fails if anything is left of the driver.
Outcome run_with(const Scenario& scenario, const Fault* fault) {
  Outcome outcome;
  {
    Plug plug(scenario.source);
    fakecuda_reset_calls();
    if (fault != nullptr) fakecuda_fail_call(fault->function.c_str(), fault->nth, fault->code);
    scenario.run(plug);
    plug.empty_cache();
    outcome.calls = fakecuda_calls_text();
    fakecuda_clear_failures();
    outcome.errors = plug.errors();
    plug.audit();
    plug.allocator().emptyCache();  // what the driver did not take back at once
    EXPECT_EQ(plug.reserved_bytes(), 0u);
  }
  fakecuda_release_all();
  fakecuda_counts left;
  fakecuda_count(&left);
  EXPECT_EQ(
      left.device_allocations + left.physical_handles + left.mappings + left.address_ranges + left.events, 0u)
      << fakecuda_live_text();
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
  EXPECT_STREQ(fakecuda_misuses(), "");
  fakecuda_forget_misuses();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error left for somebody else";
  return outcome;
}

/// Every call of a run without faults.
std::vector<Fault> calls_of(const Scenario& scenario) {
  const Outcome outcome = run_with(scenario, nullptr);
  EXPECT_EQ(outcome.errors, "");
  std::vector<Fault> calls;
  std::istringstream lines(outcome.calls);
  std::string function;
  for (std::uint64_t count = 0; lines >> function >> count;) {
    for (std::uint64_t nth = 1; nth <= count; ++nth) calls.push_back({function, nth, 0});
  }
  return calls;
}

/// Running out where memory is asked for is what the ladder is there for: it is no driver's error.
bool is_running_out(const Fault& fault) {
  static const std::set<std::string> kAskForMemory = {"cudaMalloc", "cuMemCreate", "cuMemMap",
                                                      "cuMemSetAccess", "cuMemAddressReserve"};
  return fault.code == kOutOfMemory && kAskForMemory.count(fault.function) != 0;
}

/// Calls whose failure is no news: nothing depends on them, or another call says the same.
bool may_fail_silently(const Fault& fault) {
  static const std::set<std::string> kUnimportant = {"cudaGetLastError", "cudaPeekAtLastError",
                                                     "cudaGetErrorName", "cudaGetErrorString",
                                                     "cudaThreadExchangeStreamCaptureMode",
                                                     // The guard that goes back to the caller's device.
                                                     "cudaSetDevice"};
  return kUnimportant.count(fault.function) != 0 || is_running_out(fault);
}

/// torch makes this one by itself, and says "CUDA error".
bool is_named(const std::string& errors, const Fault& fault) {
  if (is_running_out(fault)) return errors.rfind("out of memory: ", 0) == 0;
  return errors.find(fault.function) != std::string::npos ||
         (fault.function == "cudaGetDevice" && errors.find("CUDA error") != std::string::npos);
}

class Faults : public ::testing::TestWithParam<Scenario> {
 protected:
  static void SetUpTestSuite() {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    for (int device : {0, 1}) fakecuda_set_device_bytes(device, kFaultDeviceBytes);
    stream_of_test(0);
  }
};

TEST_P(Faults, AtEachDriverCallBreakNothingNameTheCallAndPass) {
  const Scenario& scenario = GetParam();
  const std::vector<Fault> calls = calls_of(scenario);
  EXPECT_GT(calls.size(), 50u);
  for (Fault fault : calls) {
    for (const int code : {kOutOfMemory, kUnknown}) {
      fault.code = code;
      SCOPED_TRACE(fault.text());
      const std::string errors = run_with(scenario, &fault).errors;
      if (!errors.empty() || !may_fail_silently(fault)) {
        EXPECT_TRUE(is_named(errors, fault)) << "said:\n" << errors;
      }
    }
  }
  RecordProperty("calls", std::to_string(calls.size()));
  std::printf("%s: %zu calls, each failing in two ways\n", scenario.name, calls.size());
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Faults, ::testing::ValuesIn(kScenarios), [](const auto& instance) {
  std::string name = instance.param.name;
  for (char& letter : name) letter = letter == ' ' ? '_' : letter;
  return name;
});

}  // namespace
}  // namespace cistern::support
