// Stream time for memory of the host.
#pragma once

#include "cistern/sources/cuda/event_fences.hpp"

namespace cistern {

/// Whoever allocates host memory is the host itself: an owner that no device's stream is, for whom everything before
/// now is done, and who cannot be made to wait in a queue. All other streams are EventFences'.
class HostFences final : public StreamFences {
 public:
  static constexpr StreamId kHost{~std::uint64_t{0}};

  /// Fails with DriverError.
  HostFences(const DriverApi& api, int device) : devices_(api, device) {}

  StreamId identify(void* stream, int device) { return devices_.identify(stream, device); }

  FenceId record(StreamId stream) override { return stream == kHost ? kDone : devices_.record(stream); }
  FenceState query(FenceId fence) override { return fence == kDone ? FenceState::kDone : devices_.query(fence); }
  void wait(FenceId fence) override {
    if (fence != kDone) devices_.wait(fence);
  }
  bool order_after(StreamId stream, FenceId fence) override {
    return stream != kHost && devices_.order_after(stream, fence);
  }
  void release(FenceId fence) override {
    if (fence != kDone) devices_.release(fence);
  }

 private:
  static constexpr FenceId kDone{~std::uint64_t{0}};
  EventFences devices_;
};

}  // namespace cistern
