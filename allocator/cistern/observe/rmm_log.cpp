// Logs of RMM's logging adaptor (imports.hpp).
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <vector>

#include "cistern/observe/files.hpp"
#include "cistern/observe/imports.hpp"

namespace cistern {
namespace {

constexpr std::string_view kHeader = "Thread,Time,Action,Pointer,Size,Stream";
enum Field : std::size_t { kThread, kTime, kAction, kPointer, kSize, kStream, kFieldCount };

class RmmLogReader {
 public:
  explicit RmmLogReader(const std::string& path) : file_(path) {}

  Imported read() {
    std::string line;
    if (!next(line) || line != kHeader) fail("expected the header " + std::string(kHeader));
    while (next(line)) {
      if (!line.empty()) parse(line);
    }
    return {build(), "initial_blocks=" + std::to_string(initial_.size())};
  }

 private:
  struct Operation {
    bool allocates;
    std::uint64_t id, bytes, stream;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(file_.path(), "line " + std::to_string(line_number_) + ": " + what);
  }
  bool next(std::string& line) {
    ++line_number_;
    return file_.read_line(line);
  }

  /// Decimal, or hexadecimal behind 0x.
  std::uint64_t number(const char* field, std::string_view text) const {
    const bool hexadecimal = text.substr(0, 2) == "0x";
    const std::string_view digits = hexadecimal ? text.substr(2) : text;
    std::uint64_t value = 0;
    const auto [stop, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
    if (code != std::errc{} || stop != digits.data() + digits.size())
      fail(std::string(field) + " is not a number");
    return value;
  }

  void parse(std::string_view line) {
    std::array<std::string_view, kFieldCount> fields;
    std::size_t count = 0;
    for (std::size_t comma = 0; count < kFieldCount && comma != std::string_view::npos; ++count) {
      comma = line.find(',');
      fields[count] = line.substr(0, comma);
      if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
      if (comma != std::string_view::npos && count + 1 == kFieldCount) ++count;
    }
    if (count != kFieldCount) fail("expected six fields " + std::string(kHeader));
    if (fields[kAction] == "allocate failure") return;
    const bool allocates = fields[kAction] == "allocate";
    if (!allocates && fields[kAction] != "free")
      fail("unknown action: allocate, allocate failure or free is expected");
    const std::uint64_t pointer = number("Pointer", fields[kPointer]);
    const std::uint64_t bytes = number("Size", fields[kSize]);
    const std::uint64_t stream = stream_number(number("Stream", fields[kStream]));
    if (bytes == 0) return;  // RMM gives no memory for nothing
    allocates ? allocate(pointer, bytes, stream) : free(pointer, bytes, stream);
  }

  /// 0 and 1 are the default stream's handles.
  std::uint64_t stream_number(std::uint64_t handle) {
    return handle <= 1 ? 0 : streams_.emplace(handle, streams_.size() + 1).first->second;
  }

  void allocate(std::uint64_t pointer, std::uint64_t bytes, std::uint64_t stream) {
    if (!live_.emplace(pointer, Operation{true, next_id_, bytes, stream}).second)
      fail("allocates what is live already");
    operations_.push_back({true, next_id_++, bytes, stream});
  }
  void free(std::uint64_t pointer, std::uint64_t bytes, std::uint64_t stream) {
    const auto found = live_.find(pointer);
    if (found == live_.end()) {
      initial_.push_back({true, next_id_, bytes, stream});
      operations_.push_back({false, next_id_++, bytes, stream});
      return;
    }
    if (found->second.bytes != bytes) {
      fail("frees with " + std::to_string(bytes) + " bytes what was allocated with " +
           std::to_string(found->second.bytes));
    }
    operations_.push_back({false, found->second.id, bytes, stream});
    live_.erase(found);
  }

  void add(const Operation& operation) {
    const auto wrong = operation.allocates
                           ? builder_.allocate(operation.id, operation.bytes, operation.stream)
                           : builder_.free(operation.id, operation.bytes, operation.stream);
    if (wrong) throw FileError(file_.path(), *wrong);
  }
  ReplayProgram build() {
    for (const Operation& operation : initial_) add(operation);
    for (const Operation& operation : operations_) add(operation);
    if (builder_.lower_bound_bytes() == 0) throw FileError(file_.path(), "has no allocation in it");
    return builder_.take(file_.path());
  }

  InputFile file_;
  std::uint64_t line_number_ = 0;
  std::uint64_t next_id_ = 0;
  std::vector<Operation> initial_;
  std::vector<Operation> operations_;
  std::map<std::uint64_t, Operation> live_;
  std::map<std::uint64_t, std::uint64_t> streams_;
  ReplayProgramBuilder builder_;
};

}  // namespace

Imported import_rmm_log(const std::string& path) {
  return RmmLogReader(path).read();
}

bool is_rmm_log(const std::string& path) {
  InputFile file(path);
  std::string head(kHeader.size(), '\0');
  return file.read(head.data(), head.size()) == head.size() && head == kHeader;
}

}  // namespace cistern
