#include "models/tensor_file.hpp"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cistern/observe/files.hpp"
#include "models/safetensors_header.hpp"
#include "models/sha256.hpp"

namespace cistern::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSha256 = "sha256";
constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"F32", at::kFloat}, {"I64", at::kLong}, {"U8", at::kByte}};

const char* type_name(at::ScalarType type) {
  for (const auto& [name, candidate] : kTypes) {
    if (candidate == type) return name;
  }
  TORCH_CHECK(false, "a tensor file holds no ", type);
}

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw FileError(file.string(), what);
}
[[noreturn]] void fail_errno(const fs::path& file, const char* what) {
  fail(file, std::string(what) + ": " + std::strerror(errno));
}

// A file that is removed again unless it was moved to its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target), path_(target.string() + ".tmp") {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail_errno(target_, "cannot be written");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    ::close(descriptor_);
    if (!moved_) ::unlink(path_.c_str());
  }

  void write(const void* data, std::size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, next, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail_errno(target_, "cannot be written");
      next += written, bytes -= static_cast<std::size_t>(written);
    }
  }

  // The data reach the disk before the name does, and the name before we return.
  void move_to_target() {
    if (::fsync(descriptor_) != 0) fail_errno(target_, "cannot be written");
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail_errno(target_, "cannot be replaced");
    moved_ = true;
    const fs::path directory = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    const int parent = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
      return;  // Not readable, but writable: the rename stands, only its durability is the system's choice.
    ::fsync(parent);
    ::close(parent);
  }

 private:
  fs::path target_;
  fs::path path_;
  int descriptor_ = -1;
  bool moved_ = false;
};

at::Tensor read_tensor(std::ifstream& stream, const fs::path& file, const SafetensorsEntry& entry) {
  at::ScalarType type = at::kFloat;
  for (const auto& [name, candidate] : kTypes) {
    if (entry.type == name) type = candidate;
  }
  at::Tensor tensor = at::empty(entry.shape, type);
  stream.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  if (!stream) fail(file, "cannot be read");
  return tensor;
}

std::string sha256_of(const std::map<std::string, at::Tensor>& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.is_contiguous() && tensor.is_cpu(), "tensor ", name,
                " cannot be written as it lies in memory");
    hash.update(tensor.const_data_ptr(), tensor.nbytes());
  }
  return hash.finish();
}

}  // namespace

void write_tensor_file(const fs::path& file, const TensorFile& content) {
  json header = json::object();
  header[kSafetensorsMetadata] = content.metadata;
  header[kSafetensorsMetadata][kSha256] = sha256_of(content.tensors);
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    header[name] = {{"dtype", type_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // The format wants the data aligned and allows spaces for it.
  const std::uint64_t header_bytes = text.size();

  TemporaryFile temporary(file);
  temporary.write(&header_bytes, sizeof header_bytes);
  temporary.write(text.data(), text.size());
  for (const auto& [name, tensor] : content.tensors)
    temporary.write(tensor.const_data_ptr(), tensor.nbytes());
  temporary.move_to_target();
}

TensorFile read_tensor_file(const fs::path& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_errno(file, "cannot be read");
  std::error_code error;
  if (!fs::is_regular_file(file, error)) fail(file, "is not a file");
  const std::uint64_t file_bytes = fs::file_size(file, error);
  if (error) fail(file, "cannot be read: " + error.message());
  SafetensorsHeader header = read_safetensors_header(stream, file_bytes, file.string());
  TensorFile content;
  content.metadata = std::move(header.metadata);
  for (const SafetensorsEntry& entry : header.entries)
    content.tensors[entry.name] = read_tensor(stream, file, entry);
  const auto sha256 = content.metadata.find(kSha256);
  if (sha256 != content.metadata.end() && sha256->second != sha256_of(content.tensors)) {
    fail(file, "is damaged: its data do not match their sha256");
  }
  return content;
}

}  // namespace cistern::models
