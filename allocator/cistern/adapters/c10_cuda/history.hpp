// What happened, for torch's memory history: trace entries in a ring a device, trackers, and where blocks were made.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cistern/base/ids.hpp"

namespace cistern {

/// Threads: all members from any thread at once. Contexts are gathered and trackers called under no lock: both may want
/// Python's. Who tells of an address tells before it gives it up and after it got it, so that entries about one address
/// are in the order in which they happened.
class CudaHistory {
 public:
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;
  using RecordContext = c10::CachingDeviceAllocator::RecordContext;
  using CreateContext = c10::CachingDeviceAllocator::CreateContextFn;
  using Tracker = c10::CachingDeviceAllocator::AllocatorTraceTracker;
  using Annotation = c10::CachingDeviceAllocator::AnnotationEntry;
  using Context = std::shared_ptr<c10::GatheredContext>;

  struct Settings {
    CreateContext create_context = nullptr;
    std::size_t most_entries = 1;  ///< Of each device; the oldest make room.
    RecordContext when = RecordContext::NEVER;
    std::unordered_set<TraceEntry::Action> skipped{};
  };

  void start(Settings settings, bool clear);
  /// Forgets what was recorded.
  void stop();
  void attach(Tracker tracker);

  bool recording() const noexcept { return recording_.load(std::memory_order_acquire); }
  /// Somebody records or tracks. Cost: one load.
  bool listening() const noexcept { return listening_.load(std::memory_order_acquire); }

  /// The caller's stack if it is wanted at that level, else nothing.
  Context gather(RecordContext level) const;

  struct Happening {
    TraceEntry::Action action;
    int device = 0;
    Address address = 0;  ///< Of an OOM: the free bytes of the device.
    std::size_t bytes = 0;
    void* stream = nullptr;
    c10::MempoolId_t pool{0, 0};
    Context context{};
  };
  void tell(const Happening& happening);
  void annotate(int device, const std::vector<std::pair<std::string, std::string>>& metadata);

  // Where live blocks were made, while recording.
  void remember(Address address, Context context);
  /// Nothing if it is not known.
  Context forget(Address address);
  std::unordered_map<Address, Context> contexts() const;

  // Freed blocks that a stream still uses: freed, but not completed.
  void wait_for(Happening freed);
  /// Takes those out that `pending(address)` says no of; called under no lock.
  template <class Pending>
  std::vector<Happening> completed(Pending pending);
  bool any_waiting() const noexcept { return waiting_count_.load(std::memory_order_relaxed) != 0; }

  /// Oldest first, times in microseconds; one list for each device below `device_count`, only of `pool` if it is not
  /// {0, 0}.
  std::vector<std::vector<TraceEntry>> traces(int device_count, c10::MempoolId_t pool);
  std::vector<Annotation> annotations();

  // Of the calling thread.
  static void push_compile_context(std::string text);
  static void pop_compile_context();
  static void set_user_metadata(std::string text);
  static const std::string& user_metadata();

 private:
  /// Keeps the newest.
  template <class Entry>
  struct Ring {
    std::vector<Entry> entries;
    std::size_t next = 0;
    void add(Entry entry, std::size_t most) {
      if (entries.size() < most) return entries.push_back(std::move(entry));
      next = next % entries.size();
      entries[next++] = std::move(entry);
    }
    std::vector<Entry> in_order() const {
      const std::size_t first = entries.empty() ? 0 : next % entries.size();
      std::vector<Entry> all(entries.begin() + static_cast<std::ptrdiff_t>(first), entries.end());
      all.insert(all.end(), entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(first));
      return all;
    }
  };

  void clear();  ///< Requires mutex_.

  std::atomic<bool> recording_{false};
  std::atomic<bool> listening_{false};
  std::atomic<std::size_t> waiting_count_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> settings_ = std::make_shared<Settings>();  // all of these are guarded by mutex_
  std::vector<std::shared_ptr<const Tracker>> trackers_;
  std::vector<Ring<TraceEntry>> rings_;
  Ring<Annotation> annotations_;
  std::unordered_map<Address, Context> contexts_;
  std::vector<Happening> waiting_;
  c10::ApproximateClockToUnixTimeConverter clock_;
};

template <class Pending>
std::vector<CudaHistory::Happening> CudaHistory::completed(Pending pending) {
  if (!any_waiting()) return {};
  std::vector<Happening> waiting;
  {
    const std::scoped_lock lock(mutex_);
    waiting.swap(waiting_);
  }
  std::vector<Happening> done;
  std::vector<Happening> still;
  for (Happening& freed : waiting) (pending(freed) ? still : done).push_back(std::move(freed));
  const std::scoped_lock lock(mutex_);
  waiting_.insert(waiting_.begin(), still.begin(), still.end());
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  return done;
}

}  // namespace cistern
