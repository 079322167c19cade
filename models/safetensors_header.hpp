// The header of a safetensors file, from anybody, without torch.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace cistern::models {

/// A tensor as the header describes it: the data's bytes [first, end).
struct SafetensorsEntry {
  std::string name;  ///< Printable, of at most 256 bytes.
  std::string type;  ///< "F32", "I64" or "U8".
  std::vector<std::int64_t> shape;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< In the order of the data, which they fill exactly.
  std::map<std::string, std::string> metadata;
};

inline constexpr const char* kSafetensorsMetadata = "__metadata__";

/// Reads from the stream's beginning up to the data. `file` is its name, for messages. Takes memory in
/// proportion to the file, whatever the header says. Fails with FileError, one line: no such format, cut
/// short, an impossible type, shape or place of a tensor, tensors that overlap or leave gaps.
SafetensorsHeader read_safetensors_header(std::istream& stream, std::uint64_t file_bytes,
                                          const std::string& file);

}  // namespace cistern::models
