// MNIST's IDX files, plain or gzip, straight into tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

namespace cistern::models {

struct LabelledImages {
  at::Tensor images;  ///< [n, 1, 28, 28] float, 0..1
  at::Tensor labels;  ///< [n] int64, 0..9
};

struct Mnist {
  LabelledImages train;
  LabelledImages test;
};

/// Shapes: [n, rows, columns] uint8 of an IDX image file. Fails with FileError: unreadable, wrong magic, no
/// or too many images, more or fewer bytes than the header promises, damaged gzip.
at::Tensor read_idx_images(const std::filesystem::path& file);

/// Shapes: [n] uint8 of an IDX label file. Fails as read_idx_images does.
at::Tensor read_idx_labels(const std::filesystem::path& file);

/// As the files have them.
struct IdxPair {
  at::Tensor images;  ///< [n, rows, columns] uint8
  at::Tensor labels;  ///< [n] uint8
};

/// Whether a directory seems to hold such files.
bool holds_idx(const std::filesystem::path& directory);

/// Reads PREFIX-images-idx3-ubyte[.gz] and PREFIX-labels-idx1-ubyte[.gz] of a directory. Fails with FileError also
/// where images and labels differ in number.
IdxPair load_idx_pair(const std::filesystem::path& directory, const std::string& prefix);

/// Requires at least one.
int largest_label(const at::Tensor& labels);

/// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] of a directory. Fails with FileError also where
/// images are not 28x28, a label is above 9, or images and labels differ in number.
Mnist load_mnist(const std::filesystem::path& directory);

}  // namespace cistern::models
