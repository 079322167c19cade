#include "cistern/observe/trace.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace cistern {
namespace {

constexpr std::size_t kHeaderBytes = 64;

Event event(EventKind kind, std::uint64_t sequence, std::uint64_t address, std::uint64_t bytes) {
  Event result;
  result.kind = kind;
  result.sequence = sequence;
  result.address = address;
  result.bytes = bytes;
  return result;
}

class EventTrace : public testing::Test {
 protected:
  std::string write(const std::vector<Event>& events, const std::string& name = "run.trace") {
    TraceWriter writer(folder_.path(name), TraceInfo{2 << 20, 1 << 30, DeviceId{3}});
    writer.consume(events);
    writer.close();
    return folder_.path(name);
  }

  /// Writes the bytes and says what reading them complains about, without the file's name.
  std::string complaint(const std::string& bytes) {
    const std::string path = folder_.path("bad.trace");
    write_bytes(path, bytes);
    try {
      read_trace(path);
    } catch (const FileError& error) {
      return std::string(error.what()).substr(path.size() + 2);
    }
    return "no complaint";
  }

  std::string good_bytes() {
    return read_bytes(write({event(EventKind::kAllocate, 0, 512, 10), event(EventKind::kFree, 1, 512, 10)}));
  }

  TemporaryFolder folder_;
};

TEST_F(EventTrace, ComesBackAsItWasWrittenInTheOrderOfTime) {
  Event allocate = event(EventKind::kAllocate, 1, 4096, 100);
  allocate.granted_bytes = 512;
  allocate.stream = 9;
  allocate.fence = 8;
  allocate.heap = 7;
  allocate.device = 3;
  allocate.pool = 2;
  const Trace trace =
      read_trace(write({event(EventKind::kFree, 2, 4096, 100), allocate, event(EventKind::kMark, 0, 0, 5)}));
  EXPECT_EQ(trace.info.granule_bytes, 2u << 20);
  EXPECT_EQ(trace.info.capacity_bytes, 1u << 30);
  EXPECT_EQ(trace.info.device, DeviceId{3});
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].kind, EventKind::kMark);
  EXPECT_EQ(trace.events[2].kind, EventKind::kFree);
  EXPECT_EQ(std::memcmp(&trace.events[1], &allocate, sizeof allocate), 0);
}

TEST_F(EventTrace, AnEmptyRecordingIsAWholeFile) {
  EXPECT_TRUE(read_trace(write({})).events.empty());
  EXPECT_THROW(load_event_program(folder_.path("run.trace")), FileError) << "but nothing to replay";
}

TEST_F(EventTrace, TheNameAppearsOnlyWithTheWholeFile) {
  const std::string path = folder_.path("run.trace");
  {
    TraceWriter writer(path, {});
    const std::vector<Event> events(100000);
    writer.consume(events);
    EXPECT_EQ(writer.event_count(), 100000u);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(folder_.file_count(), 0) << "abandoned without close";
  EXPECT_THROW(TraceWriter(folder_.path("no/such/folder"), {}), FileError);
}

TEST_F(EventTrace, ADiskThatRefusesIsToldByClose) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  std::filesystem::create_symlink("/dev/full", folder_.path("run.trace.tmp"));
  TraceWriter writer(folder_.path("run.trace"), {});
  const std::vector<Event> events(100000);
  writer.consume(events);
  EXPECT_THROW(writer.close(), FileError);
  EXPECT_EQ(folder_.file_count(), 0);
}

TEST_F(EventTrace, GzipByName) {
  const std::vector<Event> events(1000, event(EventKind::kMark, 0, 0, 0));
  std::vector<Event> numbered = events;
  for (std::size_t index = 0; index < numbered.size(); ++index) numbered[index].sequence = index;
  const std::string path = write(numbered, "run.trace.gz");
  EXPECT_LT(read_bytes(path).size(), 8000u);
  EXPECT_EQ(read_trace(path).events.size(), 1000u);
}

TEST_F(EventTrace, EveryTruncationIsNoticed) {
  const std::string whole = good_bytes();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_NE(complaint(whole.substr(0, bytes)), "no complaint") << bytes << " of " << whole.size();
  }
  EXPECT_EQ(complaint(whole.substr(0, kHeaderBytes + sizeof(Event) + 3)), "record 1: the file is cut off");
  EXPECT_EQ(complaint(whole.substr(0, 20)), "cut off inside its header");
}

TEST_F(EventTrace, WhatIsWrongIsNamed) {
  const std::string whole = good_bytes();
  EXPECT_EQ(complaint(whole + "x"), "bytes after its footer");
  EXPECT_EQ(complaint("not a trace at all"), "not a trace of events");
  const auto changed = [&](std::size_t offset, char value) {
    std::string bytes = whole;
    bytes[offset] = value;
    return complaint(bytes);
  };
  EXPECT_EQ(changed(8, 2), "version 2, this program reads version 1");
  EXPECT_EQ(changed(12, 48), "records of 48 bytes, expected 56");
  EXPECT_EQ(changed(kHeaderBytes + sizeof(Event) - 1, 99), "record 0: unknown kind of event 99");
  EXPECT_EQ(changed(kHeaderBytes + 2 * sizeof(Event) + 16, 5), "its footer counts 5 records, found 2");
  EXPECT_EQ(changed(kHeaderBytes + sizeof(Event), 0), "two events have the sequence number 0");
}

TEST_F(EventTrace, AllocationsAndFreesBecomeAProgram) {
  const std::string path =
      write({event(EventKind::kReserve, 0, 4096, 1 << 20), event(EventKind::kCommit, 1, 4096, 1 << 20),
             event(EventKind::kAllocate, 2, 4096, 100), event(EventKind::kFree, 3, 4096, 100),
             event(EventKind::kAllocate, 4, 4096, 70), event(EventKind::kMark, 5, 0, 1)});
  const ReplayProgram program = load_replay_program(path);
  EXPECT_EQ(program.name, "run");
  EXPECT_EQ(program.operations.size(), 3u);
  EXPECT_EQ(program.block_count, 2u);
  EXPECT_EQ(program.lower_bound_bytes, 100u);
}

TEST_F(EventTrace, AFreeOfWhatIsNotLiveIsRefusedForReplay) {
  const std::string path =
      write({event(EventKind::kAllocate, 0, 4096, 100), event(EventKind::kFree, 1, 8192, 100)});
  try {
    load_replay_program(path);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.what(), path + ": event 1: frees 8192, which is not live");
  }
}

}  // namespace
}  // namespace cistern
