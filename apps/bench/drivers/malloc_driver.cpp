// cistern-bench's driver of the host's memory, for CPU tensors. Variant malloc: whichever library is
// preloaded, else glibc, asked as torch asks; cistern: the core over the host's memory, as the CPU plug has
// it. Every page of a block is touched, and what is reserved is what is resident; the capacity is the
// machine's and not to be chosen.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/host_source.hpp"
#include "driver.hpp"

namespace cistern::bench {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kAlignment = 64;  // torch's

/// Of /proc/self/status, in bytes.
std::uint64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) == 0) return std::stoull(line.substr(key.size() + 1)) * 1024;
  }
  throw std::runtime_error("/proc/self/status says nothing of " + key);
}

class Malloc {
 public:
  explicit Malloc(const std::string& variant) : serves_(variant == "cistern") {
    if (!serves_ && variant != "malloc") throw std::invalid_argument("unknown variant " + variant);
  }

  void expect(const ReplayProgram&) {}
  void start(std::uint64_t, std::uint64_t) {
    if (serves_) {
      Options options;
      options.least_block_bytes = kAlignment;
      source_.emplace();
      allocator_.emplace(options, *source_);
    }
    std::ofstream("/proc/self/clear_refs") << 5;  // the high-water mark begins anew
    baseline_bytes_ = status_bytes("VmRSS:");
  }
  void stop() {
    allocator_.reset();
    source_.reset();
  }

  void* allocate(std::uint64_t bytes, std::uint64_t stream, unsigned) {
    void* data = nullptr;
    if (serves_) {
      Request request;
      request.bytes = bytes;
      request.stream = StreamId{stream};
      const auto allocation = allocator_->allocate(request);
      if (allocation) data = reinterpret_cast<void*>(allocation->address);
    } else if (posix_memalign(&data, kAlignment, bytes) != 0) {
      data = nullptr;
    }
    if (data != nullptr) {
      for (std::uint64_t offset = 0; offset < bytes; offset += kPageBytes)
        static_cast<volatile char*>(data)[offset] = 1;
    }
    return data;
  }
  void free(void* data, std::uint64_t, std::uint64_t) {
    if (serves_) {
      allocator_->free(reinterpret_cast<Address>(data));
    } else {
      std::free(data);
    }
  }
  void use(void*, std::uint64_t) {}
  void sync(std::uint64_t) {}
  void step() {}

  Usage usage() const {
    const auto above = [&](std::uint64_t bytes) { return bytes - std::min(bytes, baseline_bytes_); };
    return {above(status_bytes("VmRSS:")), above(status_bytes("VmHWM:")), 0, 0};
  }

 private:
  const bool serves_;
  std::uint64_t baseline_bytes_ = 0;
  std::optional<HostSource> source_;
  std::optional<CachingAllocator> allocator_;
};

}  // namespace
}  // namespace cistern::bench

int main(int argc, char** argv) {
  return cistern::bench::run_driver<cistern::bench::Malloc>(argc, argv);
}
