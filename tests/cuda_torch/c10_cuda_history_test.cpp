#include <algorithm>
#include <map>
#include <mutex>

#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

using Entry = cca::TraceEntry;
using Action = Entry::Action;

struct Stack final : c10::GatheredContext {};

std::mutex python;  // stands for Python's lock: the function below takes it, as torch's does
int gathered_count = 0;

std::shared_ptr<c10::GatheredContext> gather() {
  const std::scoped_lock lock(python);
  ++gathered_count;
  return std::make_shared<Stack>();
}

class C10CudaHistory : public CudaPlug {
 protected:
  static void record(cca::RecordContext when = cca::RecordContext::ALL, std::size_t most = 1000,
                     const std::vector<std::string>& skipped = {}) {
    cca::recordHistory(true, &gather, most, when, true, skipped);
  }
  static std::vector<Action> actions(c10::DeviceIndex device = 0) {
    std::vector<Action> all;
    const auto traces = cca::snapshot().device_traces;
    for (const Entry& entry : traces.at(static_cast<std::size_t>(device))) {
      if (entry.action_ != Action::SNAPSHOT) all.push_back(entry.action_);
    }
    return all;
  }
};

TEST_F(C10CudaHistory, ABlocksLifeIsToldInOrder) {
  EXPECT_FALSE(cca::isHistoryEnabled());
  record();
  EXPECT_TRUE(cca::isHistoryEnabled());
  cca::raw_delete(cca::raw_alloc(1000));
  cca::emptyCache();
  EXPECT_EQ(actions(), (std::vector<Action>{Action::SEGMENT_MAP, Action::ALLOC, Action::FREE_REQUESTED,
                                            Action::FREE_COMPLETED, Action::SEGMENT_UNMAP}));
  const auto traces = cca::snapshot().device_traces;
  ASSERT_EQ(traces.size(), 2u) << "one list for each device";
  EXPECT_EQ(traces[0][1].size_, 1000u) << "the bytes asked for";
  EXPECT_NE(traces[0][1].context_, nullptr);
  EXPECT_NE(traces[0][2].context_, traces[0][1].context_) << "where it was freed";
  EXPECT_LE(traces[0][0].time_.t_, traces[0][1].time_.t_);
}

TEST_F(C10CudaHistory, AFreeThatWaitsForAStreamIsCompletedWhenThatIsDone) {
  record();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  fakecuda_hold(side.stream());
  c10::DataPtr data = cca::get()->allocate(3 * kMiB);
  cca::recordStream(data, side);
  data.clear();
  EXPECT_EQ(actions().back(), Action::FREE_REQUESTED);
  fakecuda_release(side.stream());
  cca::raw_delete(cca::raw_alloc(3 * kMiB));  // looks for fences that are done
  const auto all = actions();
  EXPECT_EQ(std::count(all.begin(), all.end(), Action::FREE_COMPLETED), 2);
}

TEST_F(C10CudaHistory, StacksAreGatheredAsFarAsAskedAndWithNoLockHeld) {
  gathered_count = 0;
  record(cca::RecordContext::NEVER);
  cca::raw_delete(cca::raw_alloc(1));
  EXPECT_EQ(gathered_count, 0);
  record(cca::RecordContext::STATE);
  cca::raw_delete(cca::raw_alloc(1));
  EXPECT_EQ(gathered_count, 1);
  EXPECT_EQ(cca::snapshot().device_traces[0].front().context_, nullptr) << "kept for live blocks only";
  record(cca::RecordContext::ALL);
  cca::raw_delete(cca::raw_alloc(1));
  EXPECT_EQ(gathered_count, 3);
}

TEST_F(C10CudaHistory, LiveBlocksShowWhereTheyWereMade) {
  record(cca::RecordContext::STATE);
  void* data = cca::raw_alloc(5 * kMiB);
  const auto context_of = [&]() -> const c10::GatheredContext* {
    const auto segments = cca::snapshot().segments;
    for (const auto& segment : segments) {
      std::size_t address = segment.address;
      for (const auto& block : segment.blocks) {
        if (address == reinterpret_cast<std::size_t>(data)) return block.context_when_allocated.get();
        address += block.size;
      }
    }
    return nullptr;
  };
  EXPECT_NE(context_of(), nullptr);
  cca::recordHistory(false, nullptr, 0, cca::RecordContext::NEVER, false, {});
  EXPECT_EQ(context_of(), nullptr);
  EXPECT_FALSE(cca::isHistoryEnabled());
  cca::raw_delete(data);
}

TEST_F(C10CudaHistory, TheRingKeepsTheNewestAndSkipsWhatIsNotWanted) {
  record(cca::RecordContext::NEVER, 4, {"free_requested"});
  for (std::size_t i = 1; i <= 10; ++i) cca::raw_delete(cca::raw_alloc(i));
  const auto trace = cca::snapshot().device_traces[0];
  ASSERT_EQ(trace.size(), 4u);
  EXPECT_EQ(trace[0].action_, Action::FREE_COMPLETED);
  EXPECT_EQ(trace[0].size_, 9u);
  EXPECT_EQ(trace[1].action_, Action::ALLOC);
  EXPECT_EQ(trace[1].size_, 10u);
  EXPECT_EQ(trace[3].action_, Action::SNAPSHOT);
}

TEST_F(C10CudaHistory, OutOfMemoryIsInTheTrace) {
  record();
  EXPECT_THROW(cca::raw_alloc(300 * kMiB), c10::OutOfMemoryError);
  const auto trace = cca::snapshot().device_traces[0];
  ASSERT_GE(trace.size(), 2u);
  const Entry& entry = trace[trace.size() - 2];
  EXPECT_EQ(entry.action_, Action::OOM);
  EXPECT_EQ(entry.size_, 300 * kMiB);
  EXPECT_EQ(entry.addr_, kDeviceBytes) << "free bytes of the device";
}

TEST_F(C10CudaHistory, TrackersHearOfSegmentsWithoutAnyHistory) {
  std::map<std::size_t, std::size_t> segments;
  cca::attachAllocatorTraceTracker([&](const Entry& entry) {
    if (entry.action_ == Action::SEGMENT_MAP) segments[entry.addr_] += entry.size_;
    if (entry.action_ == Action::SEGMENT_UNMAP) segments.erase(entry.addr_);
    if (entry.action_ == Action::ALLOC) cca::getDeviceStats(0);  // no lock is held
  });
  cca::raw_delete(cca::raw_alloc(5 * kMiB));
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments.begin()->second, reserved_bytes());
  cca::emptyCache();
  EXPECT_TRUE(segments.empty());
}

TEST_F(C10CudaHistory, EachThreadsMetadataMarksItsEntries) {
  record();
  std::string frame = "graph_0";
  cca::pushCompileContext(frame);
  cca::setUserMetadata("step 3");
  EXPECT_EQ(cca::getUserMetadata(), "step 3");
  void* data = cca::raw_alloc(1);
  cca::popCompileContext();
  cca::setUserMetadata("");
  const Entry entry = cca::snapshot().device_traces[0].at(1);
  EXPECT_EQ(entry.compile_context_, "graph_0");
  EXPECT_EQ(entry.user_metadata_, "step 3");
  cca::raw_delete(data);
  cca::recordAnnotation({{"name", "forward"}});
  const auto annotations = cca::snapshot().external_annotations;
  ASSERT_EQ(annotations.size(), 1u);
  EXPECT_EQ(annotations[0].metadata_.at("name"), "forward");
}

/// As torch's profiler is told.
struct Profiler final : c10::MemoryReportingInfoBase {
  struct Report {
    std::int64_t bytes = 0;
    std::size_t allocated = 0, reserved = 0;
  };
  std::vector<Report> reports;
  std::int64_t out_of_memory = 0;
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t allocated, std::size_t reserved,
                         c10::Device device) override {
    EXPECT_EQ(device, c10::Device(c10::kCUDA, 0));
    reports.push_back({bytes, allocated, reserved});
  }
  void reportOutOfMemory(std::int64_t bytes, std::size_t, std::size_t, c10::Device) override { out_of_memory = bytes; }
  bool memoryProfilingEnabled() const override { return true; }
};

TEST_F(C10CudaHistory, TheProfilerIsToldOfEveryBlock) {
  const auto profiler = std::make_shared<Profiler>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, profiler);
    cca::raw_delete(cca::raw_alloc(1000));
    EXPECT_THROW(cca::raw_alloc(300 * kMiB), c10::OutOfMemoryError);
  }
  cca::raw_delete(cca::raw_alloc(1000));
  ASSERT_EQ(profiler->reports.size(), 2u);
  EXPECT_EQ(profiler->reports[0].bytes, 1000);
  EXPECT_EQ(profiler->reports[0].allocated, 1000u);
  EXPECT_EQ(profiler->reports[0].reserved, 2 * kMiB);
  EXPECT_EQ(profiler->reports[1].bytes, -1000);
  EXPECT_EQ(profiler->reports[1].allocated, 0u);
  EXPECT_EQ(profiler->out_of_memory, std::int64_t{300 * kMiB});
}

TEST_F(C10CudaHistory, ASnapshotTilesEachSegmentAndAddsUpToTheStatistics) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  void* small = cca::raw_alloc(1000);
  void* hole = cca::raw_alloc(6 * kMiB);
  void* large = cca::raw_alloc(5 * kMiB);
  cca::raw_delete(hole);
  c10::DataPtr pending = cca::get()->allocate(3 * kMiB);
  fakecuda_hold(side.stream());
  cca::recordStream(pending, side);
  pending.clear();
  std::size_t total = 0, allocated = 0, active = 0, requested = 0;
  const auto segments = cca::snapshot().segments;
  for (const auto& segment : segments) {
    EXPECT_TRUE(segment.is_expandable);
    std::size_t bytes = 0;
    for (const auto& block : segment.blocks) {
      bytes += block.size;
      allocated += block.allocated ? block.size : 0;
      active += block.active ? block.size : 0;
      requested += block.allocated ? block.requested_size : 0;
    }
    EXPECT_EQ(bytes, segment.total_size);
    total += bytes;
  }
  const auto stats = cca::getDeviceStats(0);
  EXPECT_EQ(static_cast<std::int64_t>(total), aggregate(stats.reserved_bytes));
  EXPECT_EQ(static_cast<std::int64_t>(allocated), aggregate(stats.allocated_bytes));
  EXPECT_EQ(static_cast<std::int64_t>(active), aggregate(stats.active_bytes));
  EXPECT_EQ(static_cast<std::int64_t>(requested), aggregate(stats.requested_bytes));
  EXPECT_GT(active, allocated);
  cca::raw_delete(small);
  cca::raw_delete(large);
}

}  // namespace
}  // namespace cistern::support
