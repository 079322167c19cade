#include "models/idx_dataset.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string>

#include "cistern/observe/files.hpp"
#include "models/mnist_cnn.hpp"

namespace cistern::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImages = "-images-idx3-ubyte";
constexpr const char* kLabels = "-labels-idx1-ubyte";
// The magic number holds the element type (8: unsigned byte) and the number of dimensions.
constexpr std::uint32_t kLabelMagic = 0x0801;
constexpr std::uint32_t kImageMagic = 0x0803;
// No header is believed beyond this: it decides how much memory is asked for before the data are seen.
constexpr std::int64_t kMostItems = 2'000'000;
constexpr std::int64_t kMostSide = 4096;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 32;

// One file read from front to end, plain or gzip.
class IdxReader {
 public:
  explicit IdxReader(const fs::path& path) : file_(path.string()) {}

  [[noreturn]] void fail(const std::string& what) const { throw FileError(file_.path(), what); }

  std::uint32_t read_u32() {
    std::array<std::uint8_t, 4> bytes{};
    if (file_.read(bytes.data(), bytes.size()) != bytes.size()) {
      fail("ends within its header; fetch the file again");
    }
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
           bytes[3];
  }

  void expect_magic(std::uint32_t wanted, const char* kind) {
    const std::uint32_t found = read_u32();
    if (found == wanted) return;
    fail("starts with the number " + std::to_string(found) + ", not " + std::to_string(wanted) +
         "; it is no IDX " + kind + " file");
  }

  std::int64_t read_dimension(const char* what, std::int64_t most) {
    const std::int64_t size = read_u32();
    if (size >= 1 && size <= most) return size;
    fail("its header promises " + std::to_string(size) + " " + what + "; 1 to " + std::to_string(most) +
         " are accepted");
  }

  /// Everything up to the end of the file, which must be exactly `target`.
  void read_rest(at::Tensor& target) {
    const std::size_t got = file_.read(target.mutable_data_ptr(), target.nbytes());
    if (got < target.nbytes()) {
      fail("holds " + std::to_string(got) + " of the " + std::to_string(target.nbytes()) +
           " bytes its header promises; it was cut short, fetch it again");
    }
    std::uint8_t beyond = 0;  // Reading up to the end also makes zlib compare the checksum.
    if (file_.read(&beyond, 1) != 0) fail("holds more bytes than its header promises; fetch it again");
  }

 private:
  InputFile file_;
};

fs::path find_file(const fs::path& directory, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path file = directory / (name + ending);
    std::error_code error;
    if (fs::exists(file, error)) return file;
  }
  throw FileError(directory.string(), "holds no " + name + " or " + name +
                                          ".gz; --data wants the directory with MNIST's four files");
}

LabelledImages load_split(const fs::path& directory, const std::string& prefix) {
  const auto [images, labels] = load_idx_pair(directory, prefix);
  if (images.size(1) != kMnistSide || images.size(2) != kMnistSide) {
    throw FileError(find_file(directory, prefix + kImages).string(),
                    "its images are " + std::to_string(images.size(1)) + "x" + std::to_string(images.size(2)) +
                        ", not 28x28; the network reads MNIST only");
  }
  const auto* first = labels.const_data_ptr<std::uint8_t>();
  const auto* bad =
      std::find_if(first, first + labels.numel(), [](std::uint8_t label) { return label >= kMnistClasses; });
  if (bad != first + labels.numel()) {
    throw FileError(find_file(directory, prefix + kLabels).string(),
                    "label " + std::to_string(bad - first) + " is " + std::to_string(*bad) +
                        "; MNIST's labels are 0 to 9");
  }
  return {images.unsqueeze(1).to(at::kFloat).div_(255.0), labels.to(at::kLong)};
}

}  // namespace

at::Tensor read_idx_images(const fs::path& file) {
  IdxReader reader(file);
  reader.expect_magic(kImageMagic, "image");
  const std::int64_t count = reader.read_dimension("images", kMostItems);
  const std::int64_t rows = reader.read_dimension("rows", kMostSide);
  const std::int64_t columns = reader.read_dimension("columns", kMostSide);
  if (count * rows * columns > kMostBytes) reader.fail("its header promises more than 4 GiB");
  at::Tensor images = at::empty({count, rows, columns}, at::kByte);
  reader.read_rest(images);
  return images;
}

at::Tensor read_idx_labels(const fs::path& file) {
  IdxReader reader(file);
  reader.expect_magic(kLabelMagic, "label");
  at::Tensor labels = at::empty({reader.read_dimension("labels", kMostItems)}, at::kByte);
  reader.read_rest(labels);
  return labels;
}

bool holds_idx(const fs::path& directory) {
  std::error_code error;
  const fs::path file = directory / ("train" + std::string(kImages));
  return fs::exists(file, error) || fs::exists(file.string() + ".gz", error);
}

IdxPair load_idx_pair(const fs::path& directory, const std::string& prefix) {
  const fs::path image_file = find_file(directory, prefix + kImages);
  const fs::path label_file = find_file(directory, prefix + kLabels);
  const IdxPair pair{read_idx_images(image_file), read_idx_labels(label_file)};
  if (pair.images.size(0) != pair.labels.size(0)) {
    throw FileError(label_file.string(), "holds " + std::to_string(pair.labels.size(0)) + " labels for the " +
                                             std::to_string(pair.images.size(0)) + " images of " +
                                             image_file.filename().string());
  }
  return pair;
}

int largest_label(const at::Tensor& labels) {
  const auto* first = labels.const_data_ptr<std::uint8_t>();
  return *std::max_element(first, first + labels.numel());
}

Mnist load_mnist(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw FileError(directory.string(), "is not a directory; --data wants the one with MNIST's four files");
  }
  return {load_split(directory, "train"), load_split(directory, "t10k")};
}

}  // namespace cistern::models
