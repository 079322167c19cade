// PyTorch's memory snapshots (imports.hpp).
#include <algorithm>
#include <map>
#include <vector>

#include "cistern/observe/files.hpp"
#include "cistern/observe/imports.hpp"
#include "cistern/observe/pickle.hpp"

namespace cistern {
namespace {

using Kind = PickleValue::Kind;

struct Live {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
};

struct HistoryEvent {
  enum class Action : std::uint8_t { kAllocate, kFree, kSegmentTaken, kSegmentGiven };
  Action action;
  std::uint64_t address;
  Live block;
};

class SnapshotReader {
 public:
  SnapshotReader(const std::string& path, std::optional<int> device)
      : path_(path), pickle_(path), device_(device) {}

  Imported read() {
    choose_device();
    read_events();
    read_segments();
    undo();
    Imported imported;
    imported.comment = "initial_blocks=" + std::to_string(live_.size());
    if (peak_reserved_ > 0)
      imported.comment += " pytorch_peak_reserved_bytes=" + std::to_string(peak_reserved_);
    build();
    imported.program = builder_.take(path_);
    return imported;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw FileError(path_, what); }

  const std::vector<const PickleValue*>& list(const PickleValue& dictionary, const char* key) {
    const PickleValue* value = dictionary.find(key);
    if (value == nullptr || value->kind != Kind::kList) {
      fail(std::string("is no memory snapshot: it has no list \"") + key + "\"");
    }
    // A list may stand in a pickle once and be named many times, lists of it too: bounded by what a real one
    // has.
    walked_ += value->items.size();
    if (walked_ > 4 * pickle_.value_count()) fail("is no memory snapshot: its lists contain each other");
    return value->items;
  }

  std::optional<std::uint64_t> find_number(const PickleValue& dictionary, const char* key) const {
    const PickleValue* value = dictionary.find(key);
    if (value == nullptr || value->kind != Kind::kInteger) return std::nullopt;
    return static_cast<std::uint64_t>(value->integer);
  }
  std::uint64_t number(const PickleValue& dictionary, const char* key) const {
    if (const auto value = find_number(dictionary, key)) return *value;
    fail(std::string("is no memory snapshot: an entry has no number \"") + key + "\"");
  }
  std::string_view word(const PickleValue& dictionary, const char* key) const {
    const PickleValue* value = dictionary.find(key);
    if (value == nullptr || value->kind != Kind::kText) {
      fail(std::string("is no memory snapshot: an entry has no text \"") + key + "\"");
    }
    return value->text;
  }

  void choose_device() {
    const auto& traces = list(pickle_.root(), "device_traces");
    std::vector<std::size_t> used;
    std::string names;
    for (std::size_t number = 0; number < traces.size(); ++number) {
      if (traces[number]->kind != Kind::kList) fail("is no memory snapshot: a device's history is no list");
      if (traces[number]->items.empty()) continue;
      used.push_back(number);
      names += (names.empty() ? "" : ", ") + std::to_string(number);
    }
    if (used.empty()) {
      fail("has no events: record them with torch.cuda.memory._record_memory_history() before the work");
    }
    if (!device_ && used.size() > 1) fail("has histories of the devices " + names + ": --device says which");
    if (!device_) device_ = static_cast<int>(used.front());
    if (std::find(used.begin(), used.end(), static_cast<std::size_t>(*device_)) == used.end()) {
      fail("has no history of device " + std::to_string(*device_) + ", but of " + names);
    }
    history_ = traces[static_cast<std::size_t>(*device_)];
  }

  void read_events() {
    using Action = HistoryEvent::Action;
    static const std::map<std::string_view, Action> kActions{{"alloc", Action::kAllocate},
                                                             {"free_requested", Action::kFree},
                                                             {"segment_alloc", Action::kSegmentTaken},
                                                             {"segment_map", Action::kSegmentTaken},
                                                             {"segment_free", Action::kSegmentGiven},
                                                             {"segment_unmap", Action::kSegmentGiven}};
    for (const PickleValue* event : history_->items) {
      const auto action = kActions.find(word(*event, "action"));
      if (action == kActions.end()) continue;  // free_completed, snapshot, oom, ...
      events_.push_back({action->second,
                         number(*event, "addr"),
                         {number(*event, "size"), find_number(*event, "stream").value_or(0)}});
    }
  }

  /// What is live and reserved at the end.
  void read_segments() {
    for (const PickleValue* segment : list(pickle_.root(), "segments")) {
      if (number(*segment, "device") != static_cast<std::uint64_t>(*device_)) continue;
      reserved_ += number(*segment, "total_size");
      std::uint64_t address = number(*segment, "address");
      for (const PickleValue* block : list(*segment, "blocks")) {
        const std::uint64_t bytes = number(*block, "size");
        if (word(*block, "state") == "active_allocated") {
          const std::uint64_t asked = find_number(*block, "requested_size").value_or(bytes);
          live_[find_number(*block, "address").value_or(address)] = {
              asked, find_number(*segment, "stream").value_or(0)};
        }
        address += bytes;
      }
    }
  }

  /// Back to the start, and forward again with the program's sizes: a free's own, or its allocation's.
  void undo() {
    peak_reserved_ = reserved_;
    for (std::size_t index = events_.size(); index-- > 0;) {
      const HistoryEvent& event = events_[index];
      switch (event.action) {
        case HistoryEvent::Action::kAllocate:
          if (live_.erase(event.address) == 0) disagree(index, "allocates what is not live after it");
          break;
        case HistoryEvent::Action::kFree:
          if (!live_.emplace(event.address, event.block).second)
            disagree(index, "frees what is live after it");
          break;
        case HistoryEvent::Action::kSegmentTaken:
          reserved_ -= std::min(reserved_, event.block.bytes);
          break;
        case HistoryEvent::Action::kSegmentGiven:
          reserved_ += event.block.bytes;
          peak_reserved_ = std::max(peak_reserved_, reserved_);
          break;
      }
    }
  }

  [[noreturn]] void disagree(std::size_t index, const char* what) const {
    fail("event " + std::to_string(index) + " " + what +
         ": the snapshot does not agree with its own history");
  }

  std::uint64_t stream_number(std::uint64_t handle) {
    return handle == 0 ? 0 : streams_.emplace(handle, streams_.size() + 1).first->second;
  }

  void allocate(std::uint64_t address, const Live& block) {
    const std::uint64_t stream = stream_number(block.stream);
    if (const auto wrong = builder_.allocate(address, block.bytes, stream)) fail(*wrong);
    granted_[address] = {block.bytes, stream};
  }

  void build() {
    for (const auto& [address, block] : live_) allocate(address, block);
    for (const HistoryEvent& event : events_) {
      if (event.action == HistoryEvent::Action::kAllocate) allocate(event.address, event.block);
      if (event.action != HistoryEvent::Action::kFree) continue;
      const Live& block = granted_[event.address];
      if (const auto wrong = builder_.free(event.address, block.bytes, block.stream)) fail(*wrong);
    }
    if (builder_.lower_bound_bytes() == 0) fail("has no allocation in it");
  }

  const std::string& path_;
  const Pickle pickle_;
  std::optional<int> device_;
  const PickleValue* history_ = nullptr;
  std::vector<HistoryEvent> events_;
  std::map<std::uint64_t, Live> live_;
  std::map<std::uint64_t, Live> granted_;
  std::map<std::uint64_t, std::uint64_t> streams_;
  std::uint64_t reserved_ = 0;
  std::uint64_t peak_reserved_ = 0;
  std::size_t walked_ = 0;
  ReplayProgramBuilder builder_;
};

}  // namespace

Imported import_memory_snapshot(const std::string& path, std::optional<int> device) {
  return SnapshotReader(path, device).read();
}

}  // namespace cistern
