#include "apps/train/pictures.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>

#include <opencv2/imgproc.hpp>

#include "cistern/observe/files.hpp"
#include "models/idx_dataset.hpp"
#include "models/image_file.hpp"

namespace cistern::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTestShare = 10;  // One in so many, where a folder has no test set of its own.

class IdxPictures final : public Pictures {
 public:
  explicit IdxPictures(const models::IdxPair& pair) : images_(pair.images), labels_(pair.labels) {}

  std::int64_t count() const override { return images_.size(0); }
  std::int64_t label(std::int64_t index) const override {
    return labels_.const_data_ptr<std::uint8_t>()[index];
  }
  cv::Mat picture(std::int64_t index, std::int64_t channels) const override {
    const at::Tensor image = images_[index];
    const cv::Mat grey(static_cast<int>(image.size(0)), static_cast<int>(image.size(1)), CV_8U,
                       image.data_ptr());
    if (channels == 1) return grey;
    cv::Mat colour;
    cv::cvtColor(grey, colour, cv::COLOR_GRAY2RGB);
    return colour;
  }

 private:
  at::Tensor images_, labels_;
};

class FilePictures final : public Pictures {
 public:
  void add(fs::path file, std::int64_t label) { files_.emplace_back(std::move(file), label); }

  std::int64_t count() const override { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t label(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].second;
  }
  cv::Mat picture(std::int64_t index, std::int64_t channels) const override {
    return models::read_image(files_[static_cast<std::size_t>(index)].first,
                              channels == 1 ? models::Colour::kGrey : models::Colour::kRgb);
  }

 private:
  std::vector<std::pair<fs::path, std::int64_t>> files_;
};

using Classes = std::map<std::string, std::vector<fs::path>>;

// The image files of each subfolder, by name.
Classes classes_in(const fs::path& directory) {
  Classes classes;
  for (const fs::directory_entry& folder : fs::directory_iterator(directory)) {
    if (!folder.is_directory()) continue;
    std::vector<fs::path> files = models::images_below(folder.path());
    if (!files.empty()) classes[folder.path().filename().string()] = std::move(files);
  }
  return classes;
}

PictureSets sets_of(const Classes& train, const Classes& test, const fs::path& directory) {
  auto train_pictures = std::make_unique<FilePictures>(), test_pictures = std::make_unique<FilePictures>();
  PictureSets sets;
  for (const auto& [label, files] : train) {
    const auto index = static_cast<std::int64_t>(sets.labels.size());
    sets.labels.push_back(label);
    for (std::size_t i = 0; i < files.size(); ++i) {
      const bool held_back = test.empty() && i % kTestShare == kTestShare - 1;
      (held_back ? *test_pictures : *train_pictures).add(files[i], index);
    }
  }
  for (const auto& [label, files] : test) {
    const auto known = std::find(sets.labels.begin(), sets.labels.end(), label);
    if (known == sets.labels.end())
      throw FileError(directory.string(), "has a class '" + label + "' to test and not to train");
    for (const fs::path& file : files) test_pictures->add(file, known - sets.labels.begin());
  }
  if (sets.labels.size() < 2)
    throw FileError(directory.string(),
                    "holds neither MNIST's four files nor two folders of pictures, one a class");
  if (test_pictures->count() == 0)
    throw FileError(directory.string(), "holds no picture to test with: every tenth of a class is one");
  sets.train = std::move(train_pictures), sets.test = std::move(test_pictures);
  return sets;
}

PictureSets open_folder(const fs::path& directory) try {
  const fs::path train = directory / "train";
  if (!fs::is_directory(train)) return sets_of(classes_in(directory), {}, directory);
  for (const char* name : {"test", "val"}) {
    if (fs::is_directory(directory / name))
      return sets_of(classes_in(train), classes_in(directory / name), directory);
  }
  return sets_of(classes_in(train), {}, directory);
} catch (const fs::filesystem_error& error) {
  throw FileError(error.path1().string(), "cannot be read: " + error.code().message());
}

PictureSets open_idx(const Dataset& dataset) {
  const models::IdxPair train = models::load_idx_pair(dataset.directory, "train");
  const models::IdxPair test = models::load_idx_pair(dataset.directory, "t10k");
  PictureSets sets;
  sets.channels = 1;
  if (train.images.size(1) == train.images.size(2)) sets.side = train.images.size(1);
  sets.labels = dataset.labels;
  const int classes = std::max(models::largest_label(train.labels), models::largest_label(test.labels)) + 1;
  if (sets.labels.empty()) {
    for (int i = 0; i < classes; ++i) sets.labels.push_back(std::to_string(i));
  }
  if (static_cast<std::size_t>(classes) > sets.labels.size())
    throw FileError(dataset.directory.string(), "has a label " + std::to_string(classes - 1) +
                                                    "; the largest is " +
                                                    std::to_string(sets.labels.size() - 1));
  sets.train = std::make_unique<IdxPictures>(train), sets.test = std::make_unique<IdxPictures>(test);
  return sets;
}

}  // namespace

std::shared_ptr<const PictureSets> open_pictures(const Dataset& dataset) {
  std::error_code error;
  if (!fs::is_directory(dataset.directory, error))
    throw FileError(dataset.directory.string(), "is no directory");
  return std::make_shared<PictureSets>(models::holds_idx(dataset.directory) ? open_idx(dataset)
                                                                            : open_folder(dataset.directory));
}

}  // namespace cistern::train
