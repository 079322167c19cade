#include "cuda_torch/differential_runner.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "cuda_torch/c10_cuda_world.hpp"
#include "cuda_torch/differential_side.hpp"
#include "support/child_process.hpp"

namespace cistern::support {
namespace {

constexpr c10::DeviceIndex kNativeDevice = 0;
constexpr c10::DeviceIndex kOurDevice = 1;
constexpr std::uint64_t kPoolCount = 4;
constexpr std::uint64_t kStepsBetweenAudits = 64;

using Served = Side::Served;

class Runner {
 public:
  Runner(const DeviceProgram& program, cca::CUDAAllocator& native, cca::CUDAAllocator& ours)
      : program_(program),
        device_bytes_(program.device_bytes),
        available_bytes_(device_bytes_),
        native_(native, kNativeDevice, program.streams, device_bytes_),
        ours_(ours, kOurDevice, program.streams, device_bytes_) {}

  Comparison run() {
    for (const DeviceStep& step : program_.steps) {
      take(step);
      native_.check_order();
      ours_.check_order();
      if (++result_.counts.steps % kStepsBetweenAudits == 0) cuda_allocator(kOurDevice).audit();
      if (failed()) break;
    }
    if (!failed()) wind_up();
    for (const Side* side : {&native_, &ours_}) {
      if (result_.violation.empty()) result_.violation = side->violation();
    }
    if (failed()) result_.violation += "\n  at step " + std::to_string(result_.counts.steps);
    return std::move(result_);
  }

 private:
  bool failed() const {
    return !result_.violation.empty() || !native_.violation().empty() || !ours_.violation().empty();
  }
  void fail(const std::string& what) {
    if (result_.violation.empty()) result_.violation = what;
  }

  template <class Do>
  void on_both(Do one) {
    one(native_);
    one(ours_);
  }

  void take(const DeviceStep& step) {
    const std::size_t first = step.a % program_.streams;
    switch (step.op) {
      case DeviceOp::kAllocate:
        allocate(std::max<std::uint64_t>(step.a, 1), step.b % program_.streams);
        break;
      case DeviceOp::kFree:
        if (!free(step.a)) return;
        break;
      case DeviceOp::kRecordStream:
        if (!record_stream(step)) return;
        break;
      case DeviceOp::kHold:
        on_both([&](Side& side) { side.hold(first); });
        break;
      case DeviceOp::kAdvance:
        on_both([&](Side& side) { side.advance(first, step.b); });
        break;
      case DeviceOp::kRelease:
        on_both([&](Side& side) { side.release(first); });
        break;
      case DeviceOp::kEmptyCache:
        on_both([](Side& side) { side.empty_cache(); });
        break;
      case DeviceOp::kFraction:
        set_fraction(static_cast<double>(step.a % 101) / 100.0);
        break;
      case DeviceOp::kSqueeze:
        available_bytes_ = device_bytes_ / 100 * (step.a % 101);
        on_both([&](Side& side) { side.squeeze(available_bytes_); });
        break;
      case DeviceOp::kBeginPool:
      case DeviceOp::kEndPool:
      case DeviceOp::kReleasePool:
        if (!change_pool(step)) return;
    }
    ++result_.counts.done[static_cast<std::size_t>(step.op)];
  }

  void allocate(std::size_t bytes, std::size_t stream) {
    const std::uint64_t number = allocation_count_++;
    const std::size_t active_before = ours_.active_bytes();
    const bool native = native_.allocate(number, bytes, stream) == Served::kYes;
    const bool ours = ours_.allocate(number, bytes, stream) == Served::kYes;
    if (native && ours) live_.insert(number);
    // What only one has would make the rest no comparison.
    if (native != ours) on_both([&](Side& side) { side.free(number); });
    Comparison::Counts& counts = result_.counts;
    ++(native ? (ours ? counts.both_served : counts.native_only)
              : (ours ? counts.ours_only : counts.neither_served));
    if (!ours && program_.malloc == 0) check_capacity(bytes, active_before);
    diverged_ |= native != ours;
    if (!diverged_) {
      counts.native_peak_bytes = native_.peak_reserved_bytes();
      counts.our_peak_bytes = ours_.peak_reserved_bytes();
    }
  }

  /// Whether running out was the truth: every block in use may pin the granules at both its ends. Of whole
  /// segments a block may pin any share.
  void check_capacity(std::size_t bytes, std::size_t active_bytes) {
    const std::size_t limit = std::min(cuda_allocator(kOurDevice).limit_bytes(), available_bytes_);
    const std::size_t granule = cuda_allocator(kOurDevice).source_traits().granule_bytes;
    const std::size_t pinned = active_bytes + 2 * granule * (live_.size() + 1);
    if (pinned + bytes <= limit) {
      fail("ours ran out at " + std::to_string(bytes) + " bytes, with " + std::to_string(active_bytes) +
           " in use by " + std::to_string(live_.size()) + " blocks, of " + std::to_string(limit));
    }
  }

  std::uint64_t live_one(std::uint64_t number) const {
    auto after = live_.upper_bound(number);
    return after == live_.begin() ? *after : *std::prev(after);
  }

  bool free(std::uint64_t number) {
    if (live_.empty()) return false;
    if (number != kLatest && live_.count(number) == 0) return false;
    const std::uint64_t which = live_one(number);
    live_.erase(which);
    on_both([&](Side& side) { side.free(which); });
    return true;
  }

  bool record_stream(const DeviceStep& step) {
    if (live_.count(step.a) == 0) return false;
    on_both([&](Side& side) { side.record_stream(step.a, step.b % program_.streams); });
    return true;
  }

  /// Native takes any, ours only what is not below what is in use.
  void set_fraction(double fraction) {
    const std::size_t in_use = ours_.active_bytes();
    if (!native_.set_fraction(fraction)) fail("native refused a fraction");
    if (ours_.set_fraction(fraction)) {
      fraction_ = fraction;
      if (ours_.reserved_bytes() > fraction * static_cast<double>(device_bytes_))
        fail("ours keeps more than its limit");
      return;
    }
    ++result_.counts.fractions_refused;
    if (fraction == 1.0) fail("ours refused the whole device");
    const double pinned = static_cast<double>(in_use + 4 * kMiB * (live_.size() + 1));
    if (program_.malloc == 0 && pinned <= fraction * static_cast<double>(device_bytes_))
      fail("ours refused a fraction");
    native_.set_fraction(fraction_);
  }

  /// A pool is begun once at a time, and released no more often than begun; after the last release it is
  /// gone, and its number stands for another pool.
  bool change_pool(const DeviceStep& step) {
    const std::uint64_t number = step.a % kPoolCount;
    const std::uint64_t pool = number + kPoolCount * generations_[number];
    switch (step.op) {
      case DeviceOp::kBeginPool:
        if (!begun_.insert(pool).second) return false;
        ++uses_[pool];
        on_both([&](Side& side) { side.begin_pool(pool, step.b % program_.streams); });
        return true;
      case DeviceOp::kEndPool:
        if (begun_.erase(pool) == 0) return false;
        on_both([&](Side& side) { side.end_pool(pool); });
        return true;
      default:
        if (uses_[pool] == 0 || begun_.count(pool) != 0) return false;
        if (--uses_[pool] == 0) ++generations_[number];
        on_both([&](Side& side) { side.release_pool(pool); });
        return true;
    }
  }

  /// Nothing is left with either.
  void wind_up() {
    for (std::size_t stream = 0; stream < program_.streams; ++stream)
      on_both([&](Side& side) { side.release(stream); });
    for (std::uint64_t pool = 0; pool < kPoolCount; ++pool) {
      change_pool({DeviceOp::kEndPool, pool});
      while (change_pool({DeviceOp::kReleasePool, pool})) {
      }
    }
    while (free(kLatest)) {
    }
    on_both([](Side& side) { side.empty_cache(); });
    cuda_allocator(kOurDevice).audit();
    if (native_.reserved_bytes() != 0) fail("native keeps memory after everything was freed");
    if (ours_.reserved_bytes() != 0) fail("ours keeps memory after everything was freed");
    if (fakecuda_used_bytes(kOurDevice) != 0) fail("the driver still lacks memory that ours gave back");
  }

  const DeviceProgram& program_;
  const std::size_t device_bytes_;
  std::size_t available_bytes_;
  double fraction_ = 1.0;
  Side native_;
  Side ours_;
  std::uint64_t allocation_count_ = 0;
  std::set<std::uint64_t> live_;
  std::set<std::uint64_t> begun_;
  std::map<std::uint64_t, std::size_t> uses_;
  std::array<std::uint64_t, kPoolCount> generations_{};
  bool diverged_ = false;
  Comparison result_;
};

std::string run_and_report(const DeviceProgram& program) {
  static_assert(std::is_trivially_copyable_v<Comparison::Counts>);
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  for (int device : {kNativeDevice, kOurDevice}) fakecuda_set_device_bytes(device, program.device_bytes);
  cca::CUDAAllocator& native = *cca::get();
  Options options;
  options.source = program.malloc != 0 ? SourceChoice::kMalloc : SourceChoice::kVmm;
  install_cuda(options);
  native.init(2);
  cca::get()->init(2);
  const Comparison comparison = Runner(program, native, *cca::get()).run();
  return std::string(reinterpret_cast<const char*>(&comparison.counts), sizeof comparison.counts) +
         comparison.violation;
}

}  // namespace

Comparison compare_with_native(const DeviceProgram& program) {
  const ChildEnd end = run_in_child([&] { return run_and_report(program); }, 60);
  Comparison comparison;
  if (end.output.size() >= sizeof comparison.counts) {
    std::memcpy(&comparison.counts, end.output.data(), sizeof comparison.counts);
    comparison.violation = end.output.substr(sizeof comparison.counts);
  }
  if (!end.failure.empty()) comparison.violation = end.failure;
  return comparison;
}

}  // namespace cistern::support
