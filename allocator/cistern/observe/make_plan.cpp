#include "cistern/observe/make_plan.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cistern/base/units.hpp"
#include "cistern/observe/files.hpp"
#include "cistern/planning/placement.hpp"

namespace cistern {
namespace {

using planning::Buffer;

struct LaneRecord {
  PlanLane lane;
  std::vector<Buffer> buffers;  ///< One a request.
};

/// Length of the part at the end of the sizes that came at least twice in a row, together for a quarter of the run: of
/// the periods, the one that goes back furthest, and of those the shortest. 0 if there is none.
std::size_t repeated_tail(const std::vector<PlannedRequest>& requests) {
  const std::size_t count = requests.size();
  const auto size = [&](std::size_t from_end) { return requests[count - 1 - from_end].bytes; };
  // agree[p]: how many sizes, counted from the end, are those p before them (the Z function of the reversed sizes).
  std::vector<std::size_t> agree(count, 0);
  std::size_t begin = 0;
  std::size_t end = 0;
  for (std::size_t p = 1; p < count; ++p) {
    if (p < end) agree[p] = std::min(end - p, agree[p - begin]);
    while (p + agree[p] < count && size(agree[p]) == size(p + agree[p])) ++agree[p];
    if (p + agree[p] > end) {
      begin = p;
      end = p + agree[p];
    }
  }
  std::size_t best = 0;
  std::size_t furthest = count / 4;  // less is no iterating job: two sizes in a row may be equal by chance
  for (std::size_t p = 1; p < count; ++p) {
    if (agree[p] < p || p + agree[p] <= furthest) continue;
    best = p;
    furthest = p + agree[p];
  }
  return best;
}

/// The largest power of two that divides every block.
std::size_t unit_of(const Trace& trace) {
  std::uint64_t bits = std::uint64_t{1} << 30;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kAllocate) bits |= event.granted_bytes | event.address;
  }
  return std::size_t{1} << std::countr_zero(bits);
}

class Recorder {
 public:
  explicit Recorder(const PlanOptions& options) : options_(options) {}

  /// Returns where the buffer is, for end().
  std::pair<std::size_t, std::size_t> begin(StreamId stream, PoolId pool, std::size_t bytes) {
    const auto [found, is_new] = lane_of_.try_emplace({pool.value, stream.value}, records_.size());
    if (is_new) records_.push_back({PlanLane{stream, pool, 0, 0, {}}, {}});
    LaneRecord& record = records_[found->second];
    record.lane.requests.push_back({bytes, 0});
    record.buffers.push_back({now_++, kForever, round_up(bytes, options_.unit_bytes)});
    live_bytes_ += bytes;
    lower_bound_bytes_ = std::max(lower_bound_bytes_, live_bytes_);
    return {found->second, record.buffers.size() - 1};
  }
  void no_longer_live(std::size_t bytes) { live_bytes_ -= bytes; }
  void end(std::pair<std::size_t, std::size_t> where) { records_[where.first].buffers[where.second].upper = now_++; }

  bool empty() const noexcept { return records_.empty(); }

  PlanFile plan() && {
    PlanFile file;
    file.lower_bound_bytes = lower_bound_bytes_;
    file.plan.unit_bytes = options_.unit_bytes;
    for (LaneRecord& record : records_) {
      for (Buffer& buffer : record.buffers) buffer.upper = std::min(buffer.upper, now_);
      planning::PlaceOptions place;
      place.capacity = round_up(planning::lower_bound(record.buffers), options_.granule_bytes);
      place.seconds = options_.seconds;
      const planning::Placement placement = planning::place(record.buffers, place);
      PlanLane& lane = record.lane;
      for (std::size_t i = 0; i < lane.requests.size(); ++i) lane.requests[i].offset = placement.offsets[i];
      lane.height_bytes = placement.height;
      const std::size_t tail = repeated_tail(lane.requests);
      lane.repeat_from = tail == 0 ? 0 : lane.requests.size() - tail;
      file.plan.lanes.push_back(std::move(lane));
    }
    return file;
  }

 private:
  static constexpr std::uint64_t kForever = std::uint64_t{1} << 62;

  const PlanOptions options_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> lane_of_;
  std::vector<LaneRecord> records_;
  std::uint64_t now_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t lower_bound_bytes_ = 0;
};

}  // namespace

PlanFile make_plan(const ReplayProgram& program, const PlanOptions& options) {
  Recorder recorder(options);
  std::vector<std::pair<std::size_t, std::size_t>> buffers(program.block_count);
  for (const ReplayOperation& operation : program.operations) {
    if (operation.action == ReplayOperation::Action::kAllocate) {
      buffers[operation.block] = recorder.begin(StreamId{operation.stream}, PoolId{}, operation.bytes);
    } else {
      recorder.no_longer_live(operation.bytes);
      recorder.end(buffers[operation.block]);
    }
  }
  return std::move(recorder).plan();
}

PlanFile make_plan(const Trace& trace, const std::string& path, const PlanOptions& as_asked) {
  PlanOptions options = as_asked;
  options.unit_bytes = std::min(options.unit_bytes, unit_of(trace));
  struct Live {
    std::pair<std::size_t, std::size_t> buffer;
    std::size_t bytes;
    bool used_elsewhere = false;
    bool freed = false;
  };
  Recorder recorder(options);
  std::unordered_map<std::uint64_t, Live> live;
  for (const Event& event : trace.events) {
    const auto fail = [&](const char* what) {
      throw FileError(path, "event " + std::to_string(event.sequence) + ": " + what);
    };
    const auto found = live.find(event.address);
    const bool known = found != live.end() && !found->second.freed;
    if (event.kind == EventKind::kAllocate) {
      if (found != live.end()) fail("allocates at an address that is live already");
      if (event.bytes == 0) fail("an allocation of 0 bytes");
      live[event.address] = {recorder.begin(StreamId{event.stream}, PoolId{event.pool}, event.bytes), event.bytes};
    } else if (event.kind == EventKind::kRecordStream) {
      if (!known) fail("a stream uses what is not live");
      found->second.used_elsewhere = true;
    } else if (event.kind == EventKind::kFree) {
      if (!known) fail("frees what is not live");
      recorder.no_longer_live(found->second.bytes);
      found->second.freed = true;
    }
    const bool freed = event.kind == EventKind::kFree && !found->second.used_elsewhere;
    const bool ready = event.kind == EventKind::kBlockReady && found != live.end() && found->second.freed;
    if (freed || ready) {
      recorder.end(found->second.buffer);
      live.erase(found);
    }
  }
  if (recorder.empty()) throw FileError(path, "holds no allocation");
  return std::move(recorder).plan();
}

}  // namespace cistern
