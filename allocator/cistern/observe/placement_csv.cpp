#include "cistern/observe/placement_csv.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "cistern/observe/files.hpp"

namespace cistern {
namespace {

constexpr std::string_view kHeader = "id,lower,upper,size";
constexpr std::size_t kFieldCount = 4;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

bool is_comment(const std::string& line) { return !line.empty() && line.front() == '#'; }

class PlacementParser {
 public:
  explicit PlacementParser(const std::string& path) : file_(path) {}

  PlacementProblem parse() {
    std::string line;
    bool header_seen = false;
    while (file_.read_line(line)) {
      ++line_number_;
      if (is_comment(line)) continue;
      if (header_seen) {
        parse_buffer(line);
      } else if (line != kHeader) {
        fail("expected the header " + std::string(kHeader) + ", found \"" + excerpt(line) + "\"");
      }
      header_seen = true;
    }
    if (problem_.buffers.empty()) throw FileError(file_.path(), "holds no buffer under " + std::string(kHeader));
    return std::move(problem_);
  }

 private:
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

  void parse_buffer(std::string_view line) {
    std::array<std::string_view, kFieldCount> fields;
    std::string_view rest = line;
    for (std::size_t field = 0; field < kFieldCount; ++field) {
      const std::size_t comma = rest.find(',');
      const bool last = field + 1 == kFieldCount;
      if (last != (comma == std::string_view::npos)) {
        fail("expected four fields " + std::string(kHeader) + ", found \"" + excerpt(line) + "\"");
      }
      fields[field] = rest.substr(0, comma);
      if (!last) rest.remove_prefix(comma + 1);
    }
    if (fields[0].empty()) fail("the id is empty");
    if (!ids_.emplace(fields[0]).second) fail("the id \"" + excerpt(fields[0]) + "\" is there twice");
    const planning::Buffer buffer{number("lower", fields[1]), number("upper", fields[2]), number("size", fields[3])};
    if (buffer.upper <= buffer.lower) {
      fail("a life from " + std::to_string(buffer.lower) + " until before " + std::to_string(buffer.upper) +
           " is none: upper must be above lower");
    }
    if (buffer.size == 0) fail("a buffer of 0 bytes");
    if (buffer.size > kMostBytes - sum_) fail("the sizes sum to more than 2^60");
    sum_ += buffer.size;
    problem_.ids.emplace_back(fields[0]);
    problem_.buffers.push_back(buffer);
  }

  std::uint64_t number(const char* field, std::string_view text) const {
    std::uint64_t value = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || stop != text.data() + text.size()) {
      fail(std::string(field) + " is \"" + excerpt(text) + "\", not a whole number from 0 to 2^64-1");
    }
    return value;
  }

  InputFile file_;
  std::uint64_t line_number_ = 0;
  std::unordered_set<std::string> ids_;
  std::uint64_t sum_ = 0;
  PlacementProblem problem_;
};

}  // namespace

bool is_placement_csv(const std::string& path) {
  InputFile file(path);
  char first = 0;
  if (file.read(&first, 1) != 1) return false;
  std::string line;
  std::string text(1, first);
  // A trace of events is no text: its first byte settles that.
  if (first != '#' && first != kHeader.front()) return false;
  while (file.read_line(line)) {
    text += line;
    if (!is_comment(text)) return text == kHeader;
    text.clear();
  }
  return false;
}

PlacementProblem load_placement_csv(const std::string& path) { return PlacementParser(path).parse(); }

void write_placement_csv(const std::string& path, const PlacementProblem& problem,
                         const planning::Placement& placement) {
  OutputFile file(path);
  file.write(std::string(kHeader) + ",offset\n");
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const planning::Buffer& buffer = problem.buffers[i];
    file.write(problem.ids[i] + "," + std::to_string(buffer.lower) + "," + std::to_string(buffer.upper) + "," +
               std::to_string(buffer.size) + "," + std::to_string(placement.offsets[i]) + "\n");
  }
  file.close();
}

}  // namespace cistern
