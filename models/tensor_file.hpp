// Named tensors in one file, in the safetensors format: 8 bytes of header length, a JSON header, raw data.
// Python reads it with safetensors.torch.load_file.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace cistern::models {

struct TensorFile {
  std::map<std::string, at::Tensor> tensors;  ///< Contiguous CPU tensors of float, int64 or uint8.
  std::map<std::string, std::string> metadata;
};

/// Replaces `file` in one step: whoever looks, or loses power, finds the old file or the new one, never a
/// part. The metadata also get the data's sha256. Fails with FileError (disk full, not writable), leaving
/// nothing behind.
void write_tensor_file(const std::filesystem::path& file, const TensorFile& content);

/// Takes no more memory than the file is long, whatever its header says. Fails with FileError, one line: unreadable, no
/// such format, cut short, tensors that overlap or leave gaps, or data that do not match their sha256.
TensorFile read_tensor_file(const std::filesystem::path& file);

}  // namespace cistern::models
