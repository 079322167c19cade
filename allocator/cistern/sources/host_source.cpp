#include "cistern/sources/host_source.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "cistern/base/check.hpp"

namespace cistern {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

[[noreturn]] void throw_errno(const char* call) {
  throw std::system_error(errno, std::generic_category(), std::string("host memory source: ") + call);
}

/// A refusal is an answer; anything else is a fault.
bool refused_or_throw(const char* call) {
  if (errno != ENOMEM && errno != EAGAIN) throw_errno(call);
  return true;
}

/// The number after `key`, or the whole file when it has none; kNoLimit if it is not there or says "max".
std::size_t read_number(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  while (!key.empty() && file >> word && word != key) continue;
  std::size_t number = 0;
  return file >> number ? number : kNoLimit;
}

struct GroupMemory {
  std::size_t limit_bytes = kNoLimit;
  std::size_t free_bytes = kNoLimit;
};

/// The tightest limit among our control group and those around it (version 2), or the one of version 1.
GroupMemory group_memory() {
  GroupMemory memory;
  const auto narrow = [&memory](const std::string& limit_path, const std::string& usage_path) {
    const std::size_t limit = read_number(limit_path, "");
    if (limit == kNoLimit) return;
    const std::size_t used = read_number(usage_path, "");
    memory.limit_bytes = std::min(memory.limit_bytes, limit);
    memory.free_bytes = std::min(memory.free_bytes, limit - std::min(limit, used));
  };
  narrow("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  std::ifstream groups("/proc/self/cgroup");
  std::string group;
  while (std::getline(groups, group) && group.rfind("0::/", 0) != 0) continue;
  group.erase(0, std::min(group.size(), std::string_view("0::").size()));
  for (;;) {
    const std::string folder = "/sys/fs/cgroup" + group;
    narrow(folder + "/memory.max", folder + "/memory.current");
    if (group.empty()) return memory;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

std::size_t physical_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Addresses are numbers everywhere but here.
void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

HostSource::HostSource(const HostOptions& options) {
  CISTERN_CHECK_LE(static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), options.granule_bytes);
  CISTERN_CHECK_EQ(options.granule_bytes & (options.granule_bytes - 1), std::size_t{0});
  const std::size_t present = std::min(physical_bytes(), group_memory().limit_bytes);
  traits_.name = "host";
  traits_.granule_bytes = options.granule_bytes;
  traits_.capacity_bytes = options.capacity_bytes != 0 ? options.capacity_bytes : present;
  // Address space is not memory, but every heap has ranges and the allocator's address table grows with them.
  traits_.range_step_bytes =
      round_up(std::min(traits_.capacity_bytes, 16 * kGiB), std::max(kGiB, options.granule_bytes));
}

HostSource::~HostSource() {
  for (const auto& [id, range] : ranges_) munmap(pointer(range.address), range.bytes);
}

std::size_t HostSource::available_bytes() const {
  const std::size_t available_kib = read_number("/proc/meminfo", "MemAvailable:");
  const std::size_t available = available_kib == kNoLimit ? kNoLimit : available_kib * kKiB;
  return std::min({available, group_memory().free_bytes, traits_.capacity_bytes - committed_bytes_});
}

std::optional<SourceRange> HostSource::reserve(std::size_t bytes) {
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % traits_.granule_bytes, std::size_t{0});
  if (bytes > kNoLimit - traits_.granule_bytes) return std::nullopt;
  // One granule more than asked holds an aligned range somewhere; what is left and right of it goes back.
  const std::size_t mapped_bytes = bytes + traits_.granule_bytes;
  void* mapped = mmap(nullptr, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED && refused_or_throw("mmap")) return std::nullopt;
  const auto begin = reinterpret_cast<Address>(mapped);
  const Address address = round_up(begin, traits_.granule_bytes);
  const std::size_t before = address - begin;
  const std::size_t after = traits_.granule_bytes - before;
  if (before > 0) munmap(mapped, before);
  if (after > 0) munmap(pointer(address + bytes), after);
  // On the whole range at once, so that its parts stay mergeable. A kernel without huge pages says no: no
  // harm.
  if (traits_.granule_bytes >= 2 * kMiB) madvise(pointer(address), bytes, MADV_HUGEPAGE);
  const SourceRange range{RangeId{next_id_++}, address, bytes};
  ranges_.emplace(range.id.value, range);
  return range;
}

std::size_t HostSource::commit(RangeId range, std::size_t offset, std::size_t bytes) {
  void* address = span(range, offset, bytes);
  if (bytes > traits_.capacity_bytes - committed_bytes_) return 0;
  if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0 && refused_or_throw("mprotect")) return 0;
  committed_bytes_ += bytes;
  return bytes;
}

void HostSource::decommit(RangeId range, std::size_t offset, std::size_t bytes) {
  void* address = span(range, offset, bytes);
  CISTERN_CHECK_LE(bytes, committed_bytes_);
  if (madvise(address, bytes, MADV_DONTNEED) != 0) throw_errno("madvise");
  // Out of mappings, the pages are gone all the same: only stray accesses are no longer caught.
  if (mprotect(address, bytes, PROT_NONE) != 0) refused_or_throw("mprotect");
  committed_bytes_ -= bytes;
}

void HostSource::unreserve(RangeId range) {
  const auto found = ranges_.find(range.value);
  const bool range_is_reserved = found != ranges_.end();
  CISTERN_CHECK_EQ(range_is_reserved, true);
  if (munmap(pointer(found->second.address), found->second.bytes) != 0) throw_errno("munmap");
  ranges_.erase(found);
}

void* HostSource::span(RangeId range, std::size_t offset, std::size_t bytes) const {
  const auto found = ranges_.find(range.value);
  const bool range_is_reserved = found != ranges_.end();
  CISTERN_CHECK_EQ(range_is_reserved, true);
  CISTERN_CHECK_NE(bytes, std::size_t{0});
  CISTERN_CHECK_EQ(offset % traits_.granule_bytes, std::size_t{0});
  CISTERN_CHECK_EQ(bytes % traits_.granule_bytes, std::size_t{0});
  CISTERN_CHECK_LE(offset, found->second.bytes);
  CISTERN_CHECK_LE(bytes, found->second.bytes - offset);
  return pointer(found->second.address + offset);
}

}  // namespace cistern
