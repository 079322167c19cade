#include "models/safetensors_header.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "cistern/observe/files.hpp"

namespace cistern::models {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 22;
constexpr std::pair<const char*, std::uint64_t> kElementBytes[] = {{"F32", 4}, {"I64", 8}, {"U8", 1}};

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw FileError(file, what);
}

// Deeper than any header is; what lies below is dropped while parsing, so that a hostile one takes no memory.
constexpr int kDeepest = 4;
constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kLongestName = 256;

json read_header(std::istream& stream, const std::string& file, std::uint64_t file_bytes) {
  std::uint64_t header_bytes = 0;  // Little endian, as are all machines that torch's wheels run on.
  stream.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (!stream || header_bytes > kLargestHeader) fail(file, "is no safetensors file");
  if (header_bytes > file_bytes - sizeof header_bytes) fail(file, "was cut short");
  std::string text(header_bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream) fail(file, "cannot be read");
  const auto shallow = [](int depth, json::parse_event_t, const json&) { return depth <= kDeepest; };
  json header = json::parse(text, shallow, /*allow_exceptions=*/false);
  if (!header.is_object()) fail(file, "is no safetensors file");
  return header;
}

// Bytes of a tensor of this shape; nothing if there is no such tensor.
std::optional<std::uint64_t> bytes_of(const SafetensorsEntry& entry, std::uint64_t element_bytes) {
  if (entry.shape.size() > kMostDimensions) return std::nullopt;
  std::uint64_t bytes = element_bytes;
  std::uint64_t largest = bytes;  // As if no dimension were 0: torch multiplies them for its strides.
  for (const std::int64_t size : entry.shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (size < 0 || __builtin_mul_overflow(largest, factor == 0 ? 1 : factor, &largest)) return std::nullopt;
    bytes *= factor;
  }
  return largest > INT64_MAX ? std::nullopt : std::optional(bytes);
}

SafetensorsEntry parse_entry(const std::string& file, const std::string& name, const json& described) {
  const bool printable =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == 127; });
  if (name.size() > kLongestName || !printable) fail(file, "has a header that is no safetensors header");
  SafetensorsEntry entry;
  entry.name = name;
  std::uint64_t element_bytes = 0;
  for (const auto& [type, bytes] : kElementBytes) {
    if (described.at("dtype") == type) entry.type = type, element_bytes = bytes;
  }
  if (element_bytes == 0) fail(file, "tensor " + name + " has an unknown type");
  const json& shape = described.at("shape");
  const json& offsets = described.at("data_offsets");
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    fail(file, "has a header that is no safetensors header");
  }
  entry.first = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  for (const json& size : shape) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX) {
      fail(file, "tensor " + name + " has an impossible shape");
    }
    entry.shape.push_back(size.get<std::int64_t>());
  }
  const std::optional<std::uint64_t> bytes = bytes_of(entry, element_bytes);
  if (!bytes || entry.end < entry.first || entry.end - entry.first != *bytes) {
    fail(file, "tensor " + name + " has a size that does not fit its shape");
  }
  return entry;
}

// The tensors must fill the data exactly, one after the other: then they take no more memory than the file is
// long.
void check_layout(const std::string& file, std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.first, a.end) < std::pair(b.first, b.end);
  });
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_bytes) fail(file, "was cut short");
    if (entry.first != next)
      fail(file, "tensor " + entry.name + " overlaps another, or leaves a gap before it");
    next = entry.end;
  }
  if (next != data_bytes)
    fail(file, "has " + std::to_string(data_bytes - next) + " bytes that belong to no tensor");
}

}  // namespace

SafetensorsHeader read_safetensors_header(std::istream& stream, std::uint64_t file_bytes,
                                          const std::string& file) {
  const json described = read_header(stream, file, file_bytes);
  SafetensorsHeader header;
  try {
    for (const auto& [name, value] : described.items()) {
      if (name == kSafetensorsMetadata) {
        header.metadata = value.get<std::map<std::string, std::string>>();
      } else {
        header.entries.push_back(parse_entry(file, name, value));
      }
    }
  } catch (const json::exception&) {
    fail(file, "has a header that is no safetensors header");
  }
  check_layout(file, header.entries, file_bytes - static_cast<std::uint64_t>(stream.tellg()));
  return header;
}

}  // namespace cistern::models
