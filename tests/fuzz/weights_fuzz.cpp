// Weights files from anybody: a header whose tensors fill the data, with a card or without, or one line of
// complaint.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cistern/observe/files.hpp"
#include "models/model_card.hpp"
#include "models/safetensors_header.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void require_one_line(const std::string& complaint) {
  require(!complaint.empty() && complaint.find('\n') == std::string::npos);
}

void check_header(const cistern::models::SafetensorsHeader& header, std::size_t file_bytes) {
  std::uint64_t next = 0;
  for (const auto& entry : header.entries) {
    require(entry.first == next && entry.end >= next && entry.end <= file_bytes);
    next = entry.end;
  }
  require(next < file_bytes);
}

void check_card(const std::string& text) {
  try {
    const cistern::models::ModelCard card = cistern::models::parse_card(text);
    require(cistern::models::parse_card(cistern::models::card_text(card)) == card);
  } catch (const std::invalid_argument& error) {
    require_one_line(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const auto header = cistern::models::read_safetensors_header(stream, size, "file");
    check_header(header, size);
    const auto card = header.metadata.find("cistern");
    if (card != header.metadata.end()) check_card(card->second);
  } catch (const cistern::FileError& error) {
    require_one_line(error.what());
  }
  return 0;
}
