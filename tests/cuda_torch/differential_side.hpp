// One of two allocators under comparison: its device, its streams, and what was granted and is used.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cistern/base/ids.hpp"

namespace cistern::support {

namespace cca = c10::cuda::CUDACachingAllocator;

/// Grants memory through torch's interface, uses it as kernels would, and notes the first thing that cannot
/// be: live blocks that overlap, work that uses a block before the work of its last owner is done, a wrong
/// kind of error, misuse that the fake runtime saw.
class Side {
 public:
  Side(cca::CUDAAllocator& allocator, c10::DeviceIndex device, std::size_t stream_count,
       std::size_t device_bytes);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  enum class Served : std::uint8_t { kYes, kOutOfMemory };

  // Blocks by the number of their allocation. Those that are not live are passed by.
  Served allocate(std::uint64_t number, std::size_t bytes, std::size_t stream);
  void free(std::uint64_t number);
  void record_stream(std::uint64_t number, std::size_t stream);

  void hold(std::size_t stream);
  /// Until so many uses of blocks that were queued there are done, or one waits for another stream.
  void advance(std::size_t stream, std::uint64_t uses);
  void release(std::size_t stream);
  void empty_cache();
  /// Whether it was taken.
  bool set_fraction(double fraction);
  void squeeze(std::size_t device_bytes);
  void begin_pool(std::uint64_t pool, std::size_t stream);
  void end_pool(std::uint64_t pool);
  void release_pool(std::uint64_t pool);

  std::size_t reserved_bytes() const;
  std::size_t peak_reserved_bytes() const;
  std::size_t active_bytes() const;  ///< Live, and freed but still in use.
  std::size_t live_count() const { return live_.size(); }

  /// Looks whether work that is done ought not to be.
  void check_order();
  const std::string& violation() const { return violation_; }

 private:
  /// Done when all that was queued on a stream before it is.
  struct Marker {
    cudaEvent_t event = nullptr;
    bool done = false;
  };
  using MarkerRef = std::shared_ptr<Marker>;
  struct Live {
    c10::DataPtr data;
    std::size_t bytes = 0;
    std::vector<std::size_t> streams;  ///< The owner first.
  };
  struct Retired {
    Address begin = 0;
    Address end = 0;
    std::vector<MarkerRef> uses;
  };
  struct Order {
    MarkerRef first;
    MarkerRef then;
    Address address = 0;
  };

  template <class Call>
  auto watched(const char* what, Call call) -> decltype(call());
  void fail(const std::string& what);
  MarkerRef mark(std::size_t stream);
  void use(std::size_t stream, const void* data, std::size_t bytes);
  bool is_done(Marker& marker);
  void enter(std::uint64_t number, Live live);

  cca::CUDAAllocator& allocator_;
  const c10::DeviceIndex device_;
  std::vector<c10::cuda::CUDAStream> streams_;
  std::vector<std::deque<MarkerRef>> uses_;  ///< Of each stream, those that may not be done.
  std::map<std::uint64_t, Live> live_;
  std::map<Address, Address> spans_;  ///< Of live blocks: begin to end.
  std::vector<Retired> retired_;      ///< Freed, and the work of the last owner may not be done.
  std::vector<Order> orders_;
  std::vector<cudaEvent_t> idle_events_;
  std::string violation_;
};

}  // namespace cistern::support
