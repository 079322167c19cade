#include "cistern/observe/files.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cistern/base/units.hpp"

namespace cistern {
namespace {

constexpr std::size_t kBufferBytes = 64 * kKiB;

gzFile file_of(void* handle) {
  return static_cast<gzFile>(handle);
}

std::string errno_text() {
  return std::strerror(errno);
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

InputFile::InputFile(std::string path)
    : path_(std::move(path)), buffer_(std::make_unique<char[]>(kBufferBytes)) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) throw FileError(path_, "is a directory, not a file");
  errno = 0;
  handle_ = gzopen(path_.c_str(), "rb");
  if (handle_ == nullptr) throw FileError(path_, "cannot open: " + errno_text());
}

InputFile::~InputFile() {
  gzclose(file_of(handle_));
}

bool InputFile::fill() {
  const int count = gzread(file_of(handle_), buffer_.get(), kBufferBytes);
  int code = Z_OK;
  const char* message = gzerror(file_of(handle_), &code);
  if (code == Z_BUF_ERROR) throw FileError(path_, "the gzip stream is cut off");
  if (code == Z_ERRNO) throw FileError(path_, "cannot read: " + errno_text());
  if (count < 0 || code != Z_OK)
    throw FileError(path_, std::string("the gzip stream is corrupt: ") + message);
  begin_ = 0;
  end_ = static_cast<std::size_t>(count);
  return end_ > 0;
}

std::size_t InputFile::read(void* destination, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes && (begin_ < end_ || fill())) {
    const std::size_t count = std::min(bytes - done, end_ - begin_);
    std::memcpy(static_cast<char*>(destination) + done, buffer_.get() + begin_, count);
    begin_ += count;
    done += count;
  }
  return done;
}

bool InputFile::read_line(std::string& line) {
  line.clear();
  bool any = false;
  while (begin_ < end_ || fill()) {
    any = true;
    const char* from = buffer_.get() + begin_;
    const auto* stop = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
    const std::size_t count = stop != nullptr ? static_cast<std::size_t>(stop - from) : end_ - begin_;
    if (line.size() + count > kBufferBytes)
      throw FileError(path_, "a line is longer than 64 KiB: not a text file?");
    line.append(from, count);
    begin_ += count;
    if (stop != nullptr) {
      ++begin_;
      break;
    }
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return any;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_path_(path_ + ".tmp") {
  errno = 0;
  // "T" writes as it is, so one kind of handle serves both.
  handle_ = gzopen(temporary_path_.c_str(), ends_with(path_, ".gz") ? "wb6" : "wbT");
  if (handle_ == nullptr) throw FileError(path_, "cannot write: " + errno_text());
  gzbuffer(file_of(handle_), 128 * 1024);
}

OutputFile::~OutputFile() {
  if (handle_ == nullptr) return;
  gzclose(file_of(handle_));
  std::remove(temporary_path_.c_str());
}

void OutputFile::write(const void* data, std::size_t bytes) noexcept {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0 && !failed_) {
    const auto count = static_cast<unsigned>(std::min(bytes, kMostAtOnce));
    failed_ = gzwrite(file_of(handle_), from, count) != static_cast<int>(count);
    from += count;
    bytes -= count;
  }
}

void OutputFile::close() {
  errno = 0;
  const int code = gzclose(file_of(std::exchange(handle_, nullptr)));
  if (failed_ || code != Z_OK || std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const std::string why = errno != 0 ? errno_text() : "the disk refused the data";
    std::remove(temporary_path_.c_str());
    throw FileError(path_, "cannot write: " + why);
  }
}

}  // namespace cistern
