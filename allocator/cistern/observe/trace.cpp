#include "cistern/observe/trace.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

namespace cistern {
namespace {

static_assert(std::endian::native == std::endian::little, "the file holds what memory holds");

constexpr std::array<char, 8> kMagic{'C', 'I', 'S', 'T', 'R', 'A', 'C', 'E'};
constexpr std::uint32_t kVersion = 1;
constexpr auto kFooterKind = EventKind{0};

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t record_bytes = sizeof(Event);
  std::uint64_t granule_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint16_t device = 0;
  std::array<char, 30> reserved{};
};
static_assert(sizeof(FileHeader) == 64);

std::string at_record(std::size_t record, const std::string& what) {
  return "record " + std::to_string(record) + ": " + what;
}

TraceInfo read_header(InputFile& file) {
  FileHeader header;
  const std::size_t count = file.read(&header, sizeof header);
  if (count < sizeof header.magic || header.magic != kMagic)
    throw FileError(file.path(), "not a trace of events");
  if (count < sizeof header) throw FileError(file.path(), "cut off inside its header");
  if (header.version != kVersion) {
    throw FileError(file.path(), "version " + std::to_string(header.version) +
                                     ", this program reads version " + std::to_string(kVersion));
  }
  if (header.record_bytes != sizeof(Event)) {
    throw FileError(file.path(), "records of " + std::to_string(header.record_bytes) + " bytes, expected " +
                                     std::to_string(sizeof(Event)));
  }
  return {header.granule_bytes, header.capacity_bytes, DeviceId{header.device}};
}

std::vector<Event> read_records(InputFile& file) {
  std::vector<Event> events;
  for (;;) {
    Event event;
    if (file.read(&event, sizeof event) < sizeof event) {
      throw FileError(file.path(), at_record(events.size(), "the file is cut off"));
    }
    if (event.kind == kFooterKind) {
      if (event.bytes != events.size()) {
        throw FileError(file.path(), "its footer counts " + std::to_string(event.bytes) + " records, found " +
                                         std::to_string(events.size()));
      }
      break;
    }
    if (event.kind > EventKind::kMark) {
      throw FileError(
          file.path(),
          at_record(events.size(), "unknown kind of event " + std::to_string(static_cast<int>(event.kind))));
    }
    events.push_back(event);
  }
  char beyond = 0;
  if (file.read(&beyond, 1) != 0) throw FileError(file.path(), "bytes after its footer");
  return events;
}

}  // namespace

TraceWriter::TraceWriter(std::string path, const TraceInfo& info) : file_(std::move(path)) {
  FileHeader header;
  header.granule_bytes = info.granule_bytes;
  header.capacity_bytes = info.capacity_bytes;
  header.device = info.device.value;
  file_.write(&header, sizeof header);
}

void TraceWriter::consume(std::span<const Event> events) {
  file_.write(events.data(), events.size_bytes());
  event_count_ += events.size();
}

void TraceWriter::close() {
  Event footer;
  footer.kind = kFooterKind;
  footer.bytes = event_count_;
  file_.write(&footer, sizeof footer);
  file_.close();
}

Trace read_trace(const std::string& path) {
  InputFile file(path);
  Trace trace;
  trace.info = read_header(file);
  trace.events = read_records(file);
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const Event& left, const Event& right) { return left.sequence < right.sequence; });
  const auto twice = std::adjacent_find(
      trace.events.begin(), trace.events.end(),
      [](const Event& left, const Event& right) { return left.sequence == right.sequence; });
  if (twice != trace.events.end()) {
    throw FileError(path, "two events have the sequence number " + std::to_string(twice->sequence));
  }
  return trace;
}

bool is_event_trace(const std::string& path) {
  InputFile file(path);
  std::array<char, kMagic.size()> start{};
  return file.read(start.data(), start.size()) == start.size() && start == kMagic;
}

ReplayProgram load_event_program(const std::string& path) {
  const Trace trace = read_trace(path);
  ReplayProgramBuilder builder;
  for (const Event& event : trace.events) {
    std::optional<std::string> wrong;
    if (event.kind == EventKind::kAllocate)
      wrong = builder.allocate(event.address, event.bytes, event.stream);
    if (event.kind == EventKind::kFree) wrong = builder.free(event.address, event.bytes, event.stream);
    if (wrong) throw FileError(path, "event " + std::to_string(event.sequence) + ": " + *wrong);
  }
  if (builder.lower_bound_bytes() == 0) throw FileError(path, "holds no allocation");
  return builder.take(path);
}

}  // namespace cistern
