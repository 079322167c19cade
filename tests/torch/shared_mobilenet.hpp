// The published MobileNetV2 of the data folder, read for tests of the network; see tests/README.md for where
// it lies.
#pragma once

#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/weights_file.hpp"
#include "support/temporary_folder.hpp"

namespace cistern::models {

inline std::filesystem::path shared_mobilenet() {
  const char* data = std::getenv("CISTERN_SHARED_DATA");
  const std::filesystem::path root = data != nullptr ? data : CISTERN_SOURCE_DIR "/../shared/data";
  return root / "mobilenet_v2";
}

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Why published_weights() would fail; empty if it would not.
inline std::string missing_for_published_weights() {
  for (const std::filesystem::path& file :
       {shared_mobilenet() / "slim_mobilenet_v2_1.0_224_folded.npz",
        std::filesystem::path(CISTERN_SOURCE_DIR "/.venv-convert/bin/python")}) {
    if (!std::filesystem::exists(file)) return "SKIPPED, NOTHING TESTED: no " + file.string();
  }
  return "";
}

/// Converted from the published file when first asked for.
inline const Weights& published_weights() {
  static const Weights weights = [] {
    const TemporaryFolder folder;
    const std::string file = folder.path("weights.safetensors");
    const std::string command = CISTERN_SOURCE_DIR "/tools/convert " +
                                (shared_mobilenet() / "slim_mobilenet_v2_1.0_224_folded.npz").string() + " " +
                                file + " > /dev/null";
    TORCH_CHECK(std::system(command.c_str()) == 0, "failed: ", command);
    return read_weights(file);
  }();
  return weights;
}

/// The array of a .npy file of float32 or float64, C order. Shapes: flat.
inline at::Tensor read_npy(const std::filesystem::path& file) {
  const std::string bytes = bytes_of(file);
  TORCH_CHECK(bytes.size() > 128, file.string(), " is no .npy file");
  const std::size_t header =
      10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  const bool wide = bytes.find("<f8") < header;
  at::Tensor values = torch::empty({static_cast<std::int64_t>((bytes.size() - header) / (wide ? 8 : 4))},
                                   wide ? torch::kDouble : torch::kFloat);
  std::memcpy(values.data_ptr(), bytes.data() + header, values.nbytes());
  return values.to(torch::kFloat);
}

inline const std::vector<std::string>& reference_pictures() {
  static const std::vector<std::string> names{"bird", "cat", "dragonfly", "grace_hopper", "parrot"};
  return names;
}

/// Shapes: [5, 3, 224, 224] in -1..1, channels last.
inline at::Tensor reference_images() {
  std::vector<at::Tensor> images;
  for (const std::string& name : reference_pictures()) {
    const std::string bytes = bytes_of(shared_mobilenet() / "reference" / (name + ".rgb_u8"));
    at::Tensor pixels = torch::empty({224, 224, 3}, torch::kByte);
    TORCH_CHECK(bytes.size() == pixels.nbytes(), name, " has ", bytes.size(), " bytes");
    std::memcpy(pixels.data_ptr(), bytes.data(), bytes.size());
    images.push_back(pixels.to(torch::kFloat) / 127.5 - 1.0);
  }
  return torch::stack(images).permute({0, 3, 1, 2});
}

/// Shapes: [5, 1001]
inline at::Tensor reference_logits() {
  std::vector<at::Tensor> logits;
  for (const std::string& name : reference_pictures()) {
    logits.push_back(read_npy(shared_mobilenet() / "reference" / (name + ".logits.npy")));
  }
  return torch::stack(logits);
}

}  // namespace cistern::models
