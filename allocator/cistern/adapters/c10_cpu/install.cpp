#include "cistern/adapters/c10_cpu/install.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "cistern/adapters/environment.hpp"
#include "cistern/adapters/own_trace.hpp"
#include "cistern/adapters/registry.hpp"
#include "cistern/adapters/scoped_pool.hpp"
#include "cistern/observe/plan_file.hpp"
#include "cistern/sources/host_source.hpp"

namespace cistern {
namespace {

c10::Device cpu() noexcept { return c10::Device(c10::DeviceType::CPU); }
constexpr std::uint32_t kMeasuredOneIn = 64;

/// What each thread keeps: its shard, and a count that picks the calls to measure.
struct ThreadState {
  static std::uint64_t next_shard() {
    static const std::uint64_t shards = std::max(1u, std::thread::hardware_concurrency());
    static std::atomic<std::uint64_t> threads{0};
    return threads.fetch_add(1, std::memory_order_relaxed) % shards;
  }
  StreamId shard{next_shard()};
  std::uint32_t calls = 0;
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

/// Measures one call in kMeasuredOneIn.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::uint64_t>& total_ns) : total_ns_(total_ns) {
    measuring_ = ++thread_state().calls % kMeasuredOneIn == 0;
    if (measuring_) [[unlikely]] start_ = Clock::now();
  }
  ~Stopwatch() {
    if (!measuring_) [[likely]] return;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
    total_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<std::uint64_t>& total_ns_;
  bool measuring_;
  Clock::time_point start_;
};

/// torch's interface, translated; no policy here.
class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(const Options& options) : core_(with_plan(options), source_), misuse_(options.misuse) {
    if (!options.record.empty()) trace_ = std::make_unique<OwnTrace>(options.record, core_);
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &delete_block, cpu()};
    Request request;
    request.bytes = bytes;
    request.stream = thread_state().shard;
    request.pool = scoped_pool(core_);
    const Stopwatch watch(measured_ns_);
    const auto allocation = core_.allocate(request);
    if (!allocation) [[unlikely]] throw_out_of_memory(allocation.error());
    void* data = reinterpret_cast<void*>(allocation->address);
    if (c10::memoryProfilingEnabled()) [[unlikely]] report(data, static_cast<std::int64_t>(bytes));
    return {data, data, &delete_block, cpu()};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  CachingAllocator& core() noexcept { return core_; }

  CallCost cost() const {
    const Stats stats = core_.stats();
    const double measured_ns = static_cast<double>(measured_ns_.load(std::memory_order_relaxed));
    return {stats.allocations.allocated + stats.allocations.freed, measured_ns * kMeasuredOneIn * 1e-9};
  }

  void end_trace() noexcept {
    if (trace_) trace_->end();
  }

 private:
  static void delete_block(void* data);

  void free(void* data) {
    const Stopwatch watch(measured_ns_);
    const auto address = reinterpret_cast<Address>(data);
    if (c10::memoryProfilingEnabled()) [[unlikely]] {
      if (const auto live = core_.find(address)) report(data, -static_cast<std::int64_t>(live->requested_bytes));
    }
    if (core_.free(address) != FreeOutcome::kNotLive) [[likely]] return;
    std::fprintf(stderr, "cistern: free of %p, which is no live CPU block: freed twice, or never granted\n", data);
    if (misuse_ == Misuse::kAbort) std::abort();
  }

  void report(void* data, std::int64_t bytes) const {
    const Stats stats = core_.stats();
    const std::uint64_t allocated = bytes < 0 ? stats.requested.current + static_cast<std::uint64_t>(bytes)
                                              : stats.requested.current;
    c10::reportMemoryUsageToProfiler(data, bytes, allocated, stats.reserved.current, cpu());
  }

  [[noreturn]] static void throw_out_of_memory(const Failure& failure) {
    if (c10::memoryProfilingEnabled()) {
      c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(failure.asked_bytes), failure.active_bytes,
                                       failure.reserved_bytes, cpu());
    }
    C10_THROW_ERROR(OutOfMemoryError, failure.explain());
  }

  HostSource source_;
  CachingAllocator core_;
  const Misuse misuse_;
  std::unique_ptr<OwnTrace> trace_;
  std::atomic<std::uint64_t> measured_ns_{0};
};

/// Never destroyed: tensors outlive main.
std::atomic<CpuAllocator*> installed{nullptr};

/// Must not throw: it runs in destructors. What gets here is the system refusing to take memory back, or a profiler.
void CpuAllocator::delete_block(void* data) {
  if (data == nullptr) return;
  try {
    installed.load(std::memory_order_acquire)->free(data);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cistern: while freeing %p: %s\n", data, error.what());
  }
}

Options with_environment(Options options) {
  options.least_block_bytes = 64;  // CPU tensors are often scalars; 64 is the alignment torch's kernels expect
  return with_cistern_conf(options);
}

}  // namespace

CachingAllocator& install_cpu(const Options& options) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (CpuAllocator* present = installed.load(std::memory_order_acquire)) return present->core();
  auto made = std::make_unique<CpuAllocator>(with_environment(options));
  register_device("cpu", made->core());
  CpuAllocator* allocator = made.release();
  installed.store(allocator, std::memory_order_release);
  c10::SetCPUAllocator(allocator, 255);
  // A child of fork has only the forking thread: no lock may be held by another one at that moment.
  pthread_atfork([] { installed.load()->core().lock_for_fork(); }, [] { installed.load()->core().unlock_after_fork(); },
                 [] { installed.load()->core().unlock_after_fork(); });
  std::atexit([] { installed.load()->end_trace(); });
  return allocator->core();
}

CallCost cpu_call_cost() {
  const CpuAllocator* allocator = installed.load(std::memory_order_acquire);
  return allocator == nullptr ? CallCost{} : allocator->cost();
}

}  // namespace cistern
