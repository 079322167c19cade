// Where the names of images come from: the command line, folders, lists, stdin, or a folder that is watched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cistern::classify {

class ImageNames {
 public:
  ImageNames() = default;
  ImageNames(const ImageNames&) = delete;
  ImageNames& operator=(const ImageNames&) = delete;
  virtual ~ImageNames() = default;

  /// Waits for a name, and takes at most `most` of those that are there then. None: there will be no more, or
  /// an interrupt came. Fails with FileError: a folder or list that cannot be read.
  virtual std::vector<std::string> take(std::size_t most) = 0;

  /// How many there are in all; nothing where that shows only at the end.
  virtual std::optional<std::int64_t> total() const { return std::nullopt; }
};

/// Images, folders, lists (*.txt) and "-". Fails with FileError: a folder that cannot be read or holds no
/// image.
std::unique_ptr<ImageNames> names_from(const std::vector<std::string>& inputs);

/// The images in a folder, then each that is written or moved there. Memory does not grow with their number
/// once the first are through. Fails with FileError.
std::unique_ptr<ImageNames> names_in(const std::string& watched_folder);

}  // namespace cistern::classify
