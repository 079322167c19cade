#include "apps/common/memory_setup.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "apps/common/memory_options.hpp"
#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/core/budget.hpp"

namespace cistern::apps {
namespace {

MemoryResult figures_of(const std::string& name, const Stats& stats) {
  MemoryResult result;
  result.name = name;
  result.requested_bytes = stats.requested.current, result.peak_requested_bytes = stats.requested.peak;
  result.allocated_bytes = stats.allocated.current, result.peak_allocated_bytes = stats.allocated.peak;
  result.reserved_bytes = stats.reserved.current, result.peak_reserved_bytes = stats.reserved.peak;
  if (stats.limit_bytes != kNoLimit) result.limit_bytes = stats.limit_bytes;
  result.allocations = stats.allocations.allocated;
  result.source_calls = stats.source_calls.total();
  return result;
}

/// What torch's own allocator of a CUDA device counts. Requires that the device was used.
MemoryResult figures_of_torch(int device) {
  const auto stats =
      c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  const auto number = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
  MemoryResult result;
  result.name = "cuda:" + std::to_string(device);
  const c10::CachingAllocator::Stat &requested = stats.requested_bytes[0],
                                    &allocated = stats.allocated_bytes[0],
                                    &reserved = stats.reserved_bytes[0];
  result.requested_bytes = number(requested.current), result.peak_requested_bytes = number(requested.peak);
  result.allocated_bytes = number(allocated.current), result.peak_allocated_bytes = number(allocated.peak);
  result.reserved_bytes = number(reserved.current), result.peak_reserved_bytes = number(reserved.peak);
  result.allocations = number(stats.allocation[0].allocated);
  result.source_calls = number(stats.num_device_alloc + stats.num_device_free);
  return result;
}

// Not getrusage: its ru_maxrss begins with that of the process that started us.
std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * kKiB;
  }
  return 0;
}

}  // namespace

MemorySetup::MemorySetup(const ChosenDevice& device, const std::optional<Options>& options)
    : device_(device), strategy_(options ? strategy_name(options->strategy) : kSystem) {
  if (!options) return;
  unsetenv("CISTERN_CONF");  // Read into the options already, below the command line; installing would put
                             // it on top.
  install(*options);
}

void MemorySetup::install(const Options& options) {
  if (!device_.cuda_index) {
    memories_.push_back({"host", &install_cpu(options)});
    return;
  }
  const CudaAllocators cuda = install_under_cuda(options, *device_.cuda_index);
  memories_ = {{device_.name(), &cuda.device}, {"pinned", &cuda.pinned}, {"host", &install_cpu()}};
}

std::vector<MemoryResult> MemorySetup::figures() const {
  if (memories_.empty() && device_.cuda_index) return {figures_of_torch(*device_.cuda_index)};
  std::vector<MemoryResult> results;
  for (const Memory& memory : memories_)
    results.push_back(figures_of(memory.name, memory.allocator->stats()));
  return results;
}

void MemorySetup::give_back_idle() {
  for (const Memory& memory : memories_) memory.allocator->trim();
}

void MemorySetup::end_period(std::int64_t period) {
  if (!memories_.empty()) memories_.front().allocator->mark(static_cast<std::uint64_t>(period));
  if (!after_first_period_) after_first_period_ = figures();
}

MemoryReport MemorySetup::report(double working_seconds) const {
  MemoryReport report;
  report.strategy = strategy_;
  report.device = device_.name();
  report.peak_rss_bytes = peak_rss_bytes();
  report.memories = figures();
  for (std::size_t i = 0; i < report.memories.size(); ++i) {
    MemoryResult& memory = report.memories[i];
    const std::uint64_t before =
        after_first_period_ ? after_first_period_->at(i).source_calls : memory.source_calls;
    memory.source_calls_after_first_period = memory.source_calls - before;
  }
  if (memories_.empty()) return report;
  const Stats stats = memories_.front().allocator->stats();
  report.served_by_rung.emplace();
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    if (stats.served[rung] > 0)
      (*report.served_by_rung)[rung_name(static_cast<Rung>(rung))] = stats.served[rung];
  }
  if (!device_.cuda_index && working_seconds > 0.0)
    report.time_share = cpu_call_cost().seconds / working_seconds;
  return report;
}

std::uint64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
}

}  // namespace cistern::apps
