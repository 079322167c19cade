#include "cuda_torch/differential_side.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <stdexcept>

#include "support/fake_cudart/control.hpp"

namespace cistern::support {
namespace {

c10::MempoolId_t pool_id(std::uint64_t pool) {
  return {0, 1 + pool};
}

std::size_t aggregate(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

Side::Side(cca::CUDAAllocator& allocator, c10::DeviceIndex device, std::size_t stream_count,
           std::size_t device_bytes)
    : allocator_(allocator), device_(device), uses_(stream_count) {
  fakecuda_set_device_bytes(device, device_bytes);
  for (std::size_t i = 0; i < stream_count; ++i) {
    streams_.push_back(i == 0 ? c10::cuda::getDefaultCUDAStream(device)
                              : c10::cuda::getStreamFromPool(false, device));
  }
}

Side::~Side() {
  const c10::cuda::CUDAGuard guard(device_);
  for (auto& queued : uses_) queued.clear();
  retired_.clear();
  orders_.clear();
  for (cudaEvent_t event : idle_events_) cudaEventDestroy(event);
}

void Side::fail(const std::string& what) {
  if (violation_.empty()) violation_ = allocator_.name() + ": " + what;
}

template <class Call>
auto Side::watched(const char* what, Call call) -> decltype(call()) {
  const c10::cuda::CUDAGuard guard(device_);
  const auto after = [&] {
    if (fakecuda_misuse_count() == 0) return;
    fail(std::string(what) + " misused the driver: " + fakecuda_misuses());
    fakecuda_forget_misuses();
  };
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      after();
    } else {
      auto result = call();
      after();
      return result;
    }
  } catch (const c10::OutOfMemoryError&) {
    after();
    throw;
  } catch (const c10::Error& error) {
    fail(std::string(what) + " threw: " + error.what_without_backtrace());
    throw std::runtime_error(violation_);
  }
}

Side::Served Side::allocate(std::uint64_t number, std::size_t bytes, std::size_t stream) {
  try {
    watched("allocate", [&] {
      const c10::cuda::CUDAStreamGuard current(streams_[stream]);
      enter(number, {allocator_.allocate(bytes), bytes, {stream}});
    });
    return Served::kYes;
  } catch (const c10::OutOfMemoryError&) {
    return Served::kOutOfMemory;
  }
}

void Side::enter(std::uint64_t number, Live live) {
  const auto begin = reinterpret_cast<Address>(live.data.get());
  const Address end = begin + live.bytes;
  const std::size_t stream = live.streams.front();
  const auto after = spans_.lower_bound(end);
  if (after != spans_.begin() && std::prev(after)->second > begin)
    fail("granted a block that overlaps a live one");
  use(stream, live.data.get(), live.bytes);
  std::vector<MarkerRef> earlier;
  for (const Retired& retired : retired_) {
    if (retired.begin >= end || begin >= retired.end) continue;
    std::copy_if(retired.uses.begin(), retired.uses.end(), std::back_inserter(earlier),
                 [this](const MarkerRef& marker) { return !is_done(*marker); });
  }
  if (!earlier.empty()) {
    const MarkerRef ours = mark(stream);
    for (const MarkerRef& marker : earlier) orders_.push_back({marker, ours, begin});
  }
  spans_[begin] = end;
  live_.emplace(number, std::move(live));
}

void Side::free(std::uint64_t number) {
  const auto found = live_.find(number);
  if (found == live_.end()) return;
  const Live& live = found->second;
  const auto begin = reinterpret_cast<Address>(live.data.get());
  Retired retired{begin, begin + live.bytes, {}};
  watched("free", [&] {
    for (const std::size_t stream : live.streams) {
      MarkerRef marker = mark(stream);
      if (!is_done(*marker)) retired.uses.push_back(std::move(marker));
    }
    spans_.erase(begin);
    live_.erase(found);
  });
  if (!retired.uses.empty()) retired_.push_back(std::move(retired));
}

void Side::record_stream(std::uint64_t number, std::size_t stream) {
  const auto found = live_.find(number);
  if (found == live_.end()) return;
  Live& live = found->second;
  watched("recordStream", [&] {
    allocator_.recordStream(live.data, streams_[stream]);
    // The other stream begins when the owner has filled the block.
    const MarkerRef filled = mark(live.streams.front());
    cudaStreamWaitEvent(streams_[stream].stream(), filled->event, 0);
    use(stream, live.data.get(), live.bytes);
  });
  live.streams.push_back(stream);
}

void Side::use(std::size_t stream, const void* data, std::size_t bytes) {
  fakecuda_touch(streams_[stream].stream(), data, bytes);
  MarkerRef marker = mark(stream);
  if (!is_done(*marker)) uses_[stream].push_back(std::move(marker));
}

Side::MarkerRef Side::mark(std::size_t stream) {
  cudaEvent_t event = nullptr;
  if (idle_events_.empty()) {
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  } else {
    event = idle_events_.back();
    idle_events_.pop_back();
  }
  cudaEventRecord(event, streams_[stream].stream());
  return {new Marker{event}, [this](Marker* marker) {
            idle_events_.push_back(marker->event);
            delete marker;
          }};
}

bool Side::is_done(Marker& marker) {
  if (!marker.done) {
    marker.done = cudaEventQuery(marker.event) == cudaSuccess;
    cudaGetLastError();
  }
  return marker.done;
}

void Side::check_order() {
  std::erase_if(orders_, [this](const Order& order) {
    // Looked at in this order: what is done between the two looks then does no harm.
    const bool then_done = is_done(*order.then);
    const bool first_done = is_done(*order.first);
    if (then_done && !first_done) fail("work on a block was done before the work of its last owner");
    return first_done;
  });
  std::erase_if(retired_, [this](Retired& retired) {
    std::erase_if(retired.uses, [this](const MarkerRef& marker) { return is_done(*marker); });
    return retired.uses.empty();
  });
}

void Side::hold(std::size_t stream) {
  watched("hold", [&] { fakecuda_hold(streams_[stream].stream()); });
}

void Side::advance(std::size_t stream, std::uint64_t uses) {
  watched("advance", [&] {
    std::deque<MarkerRef>& queued = uses_[stream];
    while (!queued.empty() && uses != 0) {
      while (!is_done(*queued.front())) {
        if (fakecuda_advance(streams_[stream].stream(), 1) == 0) return;
      }
      queued.pop_front();
      --uses;
    }
  });
}

void Side::release(std::size_t stream) {
  watched("release", [&] { fakecuda_release(streams_[stream].stream()); });
}

void Side::empty_cache() {
  watched("emptyCache", [&] { allocator_.emptyCache(); });
}

bool Side::set_fraction(double fraction) {
  const c10::cuda::CUDAGuard guard(device_);
  try {
    allocator_.setMemoryFraction(fraction, device_);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

void Side::squeeze(std::size_t device_bytes) {
  fakecuda_set_device_bytes(device_, device_bytes);
}

void Side::begin_pool(std::uint64_t pool, std::size_t stream) {
  watched("beginAllocateToPool", [&] {
    allocator_.beginAllocateToPool(
        device_, pool_id(pool),
        [wanted = streams_[stream].stream()](cudaStream_t asked) { return asked == wanted; });
  });
}

void Side::end_pool(std::uint64_t pool) {
  watched("endAllocateToPool", [&] { allocator_.endAllocateToPool(device_, pool_id(pool)); });
}

void Side::release_pool(std::uint64_t pool) {
  watched("releasePool", [&] { allocator_.releasePool(device_, pool_id(pool)); });
}

std::size_t Side::reserved_bytes() const {
  return aggregate(allocator_.getDeviceStats(device_).reserved_bytes[0].current);
}
std::size_t Side::peak_reserved_bytes() const {
  return aggregate(allocator_.getDeviceStats(device_).reserved_bytes[0].peak);
}
std::size_t Side::active_bytes() const {
  return aggregate(allocator_.getDeviceStats(device_).active_bytes[0].current);
}

}  // namespace cistern::support
