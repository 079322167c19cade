#include "cistern/observe/csv_trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cistern/observe/files.hpp"

namespace cistern {
namespace {

constexpr std::string_view kHeader = "action,id,bytes,stream";
constexpr std::string_view kHeaderWithPool = "action,id,bytes,stream,pool";
constexpr std::string_view kPeakKey = "peak_live_bytes=";
constexpr std::size_t kMostFields = 5;

class CsvParser {
 public:
  explicit CsvParser(const std::string& path) : file_(path) {}

  ReplayProgram parse() {
    std::string line;
    bool header_seen = false;
    while (file_.read_line(line)) {
      ++line_number_;
      if (!line.empty() && line.front() == '#') {
        parse_comment(line);
      } else if (!header_seen) {
        if (line != kHeader && line != kHeaderWithPool)
          fail("expected the header " + std::string(kHeader) + ", found \"" + excerpt(line) + "\"");
        header_seen = true;
        field_count_ = line == kHeader ? 4 : kMostFields;
      } else {
        parse_operation(line);
      }
    }
    if (!header_seen) throw FileError(file_.path(), "no header " + std::string(kHeader) + ": not a trace");
    if (builder_.lower_bound_bytes() == 0) throw FileError(file_.path(), "no operation after the header");
    check_declared_peak();
    return builder_.take(file_.path());
  }

 private:
  // Text of the file may be anything: one short printable line of it is enough.
  static std::string excerpt(std::string_view text) {
    std::string result(text.substr(0, 40));
    for (char& letter : result) {
      if (letter < ' ' || letter > '~') letter = '?';
    }
    return result;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(file_.path(), "line " + std::to_string(line_number_) + ": " + what);
  }

  void parse_comment(std::string_view line) {
    const std::size_t at = line.find(kPeakKey);
    if (at == std::string_view::npos) return;
    std::string_view value = line.substr(at + kPeakKey.size());
    declared_peak_ = parse_number("peak_live_bytes", value.substr(0, value.find(' ')));
  }

  void parse_operation(std::string_view line) {
    std::array<std::string_view, kMostFields> fields;
    std::string_view rest = line;
    for (std::size_t field = 0; field < field_count_; ++field) {
      const std::size_t comma = rest.find(',');
      const bool last = field + 1 == field_count_;
      if (last != (comma == std::string_view::npos)) {
        fail("expected " + std::string(field_count_ == 4 ? "four" : "five") + " fields " +
             std::string(field_count_ == 4 ? kHeader : kHeaderWithPool) + ", found \"" + excerpt(line) + "\"");
      }
      fields[field] = rest.substr(0, comma);
      if (!last) rest.remove_prefix(comma + 1);
    }
    const std::uint64_t id = parse_number("id", fields[1]);
    const std::uint64_t bytes = parse_number("bytes", fields[2]);
    const std::uint64_t stream = parse_number("stream", fields[3]);
    const std::uint64_t pool = field_count_ == 4 ? 0 : parse_number("pool", fields[4]);
    if (const auto wrong = enter(fields[0], id, bytes, stream, pool)) fail(*wrong);
  }

  std::optional<std::string> enter(std::string_view action, std::uint64_t id, std::uint64_t bytes,
                                   std::uint64_t stream, std::uint64_t pool) {
    if (action == "alloc") return builder_.allocate(id, bytes, stream, pool);
    if (action == "free") return builder_.free(id, bytes, stream);
    if (action == "use") return builder_.use(id, bytes, stream);
    if (action != "sync") return "unknown action \"" + excerpt(action) + "\": alloc, free, use or sync is expected";
    builder_.sync(stream);
    return std::nullopt;
  }

  std::uint64_t parse_number(const char* field, std::string_view text) const {
    std::uint64_t number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.size() > 1 && text.front() == '-') fail(std::string(field) + " is negative: " + excerpt(text));
    if (code == std::errc::result_out_of_range) fail(std::string(field) + " is above 2^64: " + excerpt(text));
    if (code != std::errc{} || stop != text.data() + text.size()) {
      fail(std::string(field) + " is not a number: \"" + excerpt(text) + "\"");
    }
    return number;
  }

  void check_declared_peak() const {
    if (declared_peak_ && *declared_peak_ != builder_.lower_bound_bytes()) {
      throw FileError(file_.path(), "says peak_live_bytes=" + std::to_string(*declared_peak_) +
                                        " but reaches " + std::to_string(builder_.lower_bound_bytes()) +
                                        ": lines are missing");
    }
  }

  InputFile file_;
  std::size_t field_count_ = 0;
  std::uint64_t line_number_ = 0;
  std::optional<std::uint64_t> declared_peak_;
  ReplayProgramBuilder builder_;
};

const char* action_name(ReplayOperation::Action action) noexcept {
  switch (action) {
    case ReplayOperation::Action::kAllocate:
      return "alloc,";
    case ReplayOperation::Action::kFree:
      return "free,";
    case ReplayOperation::Action::kUse:
      return "use,";
    case ReplayOperation::Action::kSync:
      return "sync,";
  }
  return "";
}

}  // namespace

ReplayProgram load_csv_program(const std::string& path) {
  return CsvParser(path).parse();
}

void write_csv_program(const ReplayProgram& program, const std::string& comment, const std::string& path) {
  const auto& operations = program.operations;
  const bool pools = std::any_of(operations.begin(), operations.end(), [](const auto& o) { return o.pool != 0; });
  OutputFile file(path);
  file.write("# " + comment + "\n# " + std::string(kPeakKey) + std::to_string(program.lower_bound_bytes) + "\n");
  file.write(std::string(pools ? kHeaderWithPool : kHeader) + "\n");
  for (const ReplayOperation& operation : operations) {
    std::string line = action_name(operation.action);
    line += std::to_string(operation.block) + "," + std::to_string(operation.bytes) + ",";
    line += std::to_string(operation.stream);
    if (pools) line += "," + std::to_string(operation.pool);
    file.write(line + "\n");
  }
  file.close();
}

}  // namespace cistern
