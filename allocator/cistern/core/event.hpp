// Events: the one observability interface. Traces, replay, the validator, pictures and golden tests all speak it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cistern/base/ids.hpp"

namespace cistern {

enum class EventKind : std::uint8_t {
  kAllocate = 1,       ///< address, bytes asked, granted_bytes, stream (owner)
  kFree = 2,           ///< address, bytes asked, granted_bytes; reusable at once unless a fence follows
  kRecordStream = 3,   ///< address, stream: that stream uses the block too
  kFenceRecorded = 4,  ///< address of the pending block, or 0 for an owner fence; stream, fence
  kFenceOrdered = 5,   ///< stream will run after fence
  kFenceDone = 6,      ///< fence seen done
  kBlockReady = 7,     ///< address: a pending block became free
  kReserve = 8,        ///< address, bytes: address space obtained
  kUnreserve = 9,      ///< address, bytes
  kCommit = 10,        ///< address, bytes: memory behind it from now on
  kDecommit = 11,      ///< address, bytes
  kOutOfMemory = 12,   ///< bytes asked
  kLimit = 13,         ///< bytes: the limit from now on, the largest number when there is none
  kMark = 14,          ///< bytes: the caller's number (an epoch, a step)
};

/// Fixed size, no pointers: written to disk as it is (see observe/trace.hpp).
struct Event {
  std::uint64_t sequence = 0;       ///< Global order of one recording, from 0; given under the lock that made it true.
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t granted_bytes = 0;
  std::uint64_t stream = 0;
  std::uint64_t fence = 0;
  std::uint32_t heap = 0;           ///< Number of the heap within its device, in order of creation.
  std::uint16_t device = 0;
  std::uint8_t pool = 0;
  EventKind kind = EventKind::kMark;
};
static_assert(sizeof(Event) == 56);

/// Receives events in batches, each batch of one heap in order; batches of several heaps may interleave out of order,
/// `sequence` restores it. Called under no heap lock. Threads: calls never overlap.
class EventSink {
 public:
  EventSink() = default;
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;
  virtual ~EventSink() = default;
  virtual void consume(std::span<const Event> events) = 0;
};

}  // namespace cistern
