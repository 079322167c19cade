// Files as observe needs them: reading plain or gzip alike, and writing so that a name never shows half a
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cistern {

/// One line that names the file, the place in it where there is one, and what is wrong.
class FileError : public std::runtime_error {
 public:
  FileError(const std::string& path, const std::string& what) : std::runtime_error(path + ": " + what) {}
};

/// Reads a file from front to back, unpacking gzip on the way. Every member throws FileError; a gzip stream
/// that is cut off or corrupt is an error, not an end.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Reads until `bytes` are there or the file ends; returns how many.
  std::size_t read(void* destination, std::size_t bytes);

  /// The next line without its end (LF or CRLF). False at the end. Fails on a line over 64 KiB.
  bool read_line(std::string& line);

  const std::string& path() const noexcept { return path_; }

 private:
  bool fill();

  std::string path_;
  void* handle_ = nullptr;  // a gzFile; zlib.h stays in the source file
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// Writes path.tmp and renames it to path on close; without close nothing is left behind. Packs when the name
/// ends in
/// ".gz". Open and close throw FileError; a failing write is kept for close, so write may be called from
/// anywhere.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes) noexcept;
  void write(std::string_view text) noexcept { write(text.data(), text.size()); }
  void close();

 private:
  std::string path_;
  std::string temporary_path_;
  void* handle_ = nullptr;
  bool failed_ = false;
};

}  // namespace cistern
