// The trace of one allocator of one process, from installation to the end of main.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/observe/trace.hpp"

namespace cistern {

/// A child of fork shares the file and must leave it alone.
class OwnTrace final : public EventSink {
 public:
  /// Records what the allocator does from now on. Fails with FileError.
  OwnTrace(const std::string& path, CachingAllocator& allocator)
      : allocator_(allocator),
        writer_(path, TraceInfo{allocator.source_traits().granule_bytes, allocator.source_traits().capacity_bytes, {}}) {
    allocator.start_recording(*this);
  }
  void consume(std::span<const Event> events) override {
    if (owned()) writer_.consume(events);
  }
  /// The trace gets its name when main returns; what happens after that is not in it.
  void end() noexcept {
    if (!owned()) return;
    try {
      allocator_.stop_recording();
      writer_.close();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "cistern: the trace is lost: %s\n", error.what());
    }
  }

 private:
  bool owned() const noexcept { return getpid() == owner_; }

  const pid_t owner_ = getpid();
  CachingAllocator& allocator_;
  TraceWriter writer_;
};

}  // namespace cistern
