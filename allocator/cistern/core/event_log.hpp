// Where events wait between the lock that made them true and the sink that wants them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cistern/core/event.hpp"

namespace cistern {

/// One per heap, guarded by its lock. Empty and without memory while nobody records.
class EventBuffer {
 public:
  static constexpr std::size_t kCapacity = 8192;

  bool recording() const noexcept { return sequence_ != nullptr; }
  /// Half full: whoever holds no lock next should drain.
  bool due() const noexcept { return recording() && events_.size() >= kCapacity / 2; }

  void start(std::atomic<std::uint64_t>* sequence) {
    events_.reserve(kCapacity);
    sequence_ = sequence;
  }
  void stop() noexcept { sequence_ = nullptr; }

  void add(Event event) noexcept {
    if (sequence_ == nullptr) [[likely]] return;
    if (events_.size() == events_.capacity()) {  // more threads than half the capacity, all between unlock and drain
      ++dropped_;
      return;
    }
    event.sequence = sequence_->fetch_add(1, std::memory_order_relaxed);
    events_.push_back(event);
  }

  /// Exchanges the events for an empty vector of the same capacity.
  void swap(std::vector<Event>& other) noexcept { events_.swap(other); }
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  std::vector<Event> events_;
  std::atomic<std::uint64_t>* sequence_ = nullptr;
  std::uint64_t dropped_ = 0;
};

/// The sink of one recording and the counter that orders its events.
struct EventLog {
  std::mutex drain_mutex;            ///< Serialises deliveries; taken with no heap lock held.
  EventSink* sink = nullptr;         ///< Guarded by drain_mutex.
  std::vector<Event> spare;          ///< Guarded by drain_mutex; of full capacity while recording.
  std::atomic<std::uint64_t> sequence{0};

  /// Takes the buffer's events under `lock` and delivers them under drain_mutex alone.
  template <class Lock>
  void drain(EventBuffer& buffer, Lock& lock) {
    const std::scoped_lock draining(drain_mutex);
    {
      const std::scoped_lock held(lock);
      buffer.swap(spare);
    }
    if (sink != nullptr && !spare.empty()) sink->consume(spare);
    spare.clear();
  }
};

}  // namespace cistern
