#include "apps/train/memory_setup.hpp"

#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "cistern/adapters/c10_cpu/install.hpp"

namespace cistern::train {

MemorySetup::MemorySetup(const std::optional<Options>& options) {
  if (!options) return;
  unsetenv("CISTERN_CONF");  // Read into the options already, below the command line; install_cpu would put
                             // it on top.
  allocator_ = &install_cpu(*options);
}

void MemorySetup::end_epoch(std::int64_t epoch) {
  if (!allocator_) return;
  allocator_->mark(static_cast<std::uint64_t>(epoch));
  if (!calls_in_first_epoch_) calls_in_first_epoch_ = allocator_->stats().source_calls.total();
}

std::optional<AllocatorResult> MemorySetup::result(double training_seconds) const {
  if (!allocator_) return std::nullopt;
  const Stats stats = allocator_->stats();
  AllocatorResult result;
  result.requested_bytes = stats.requested.current, result.peak_requested_bytes = stats.requested.peak;
  result.allocated_bytes = stats.allocated.current, result.peak_allocated_bytes = stats.allocated.peak;
  result.reserved_bytes = stats.reserved.current, result.peak_reserved_bytes = stats.reserved.peak;
  result.allocations = stats.allocations.allocated;
  result.source_calls = stats.source_calls.total();
  result.source_calls_after_first_epoch =
      result.source_calls - calls_in_first_epoch_.value_or(result.source_calls);
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    if (stats.served[rung] > 0)
      result.served_by_rung[rung_name(static_cast<Rung>(rung))] = stats.served[rung];
  }
  if (training_seconds > 0.0) result.time_share = cpu_call_cost().seconds / training_seconds;
  return result;
}

std::uint64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
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

}  // namespace cistern::train
