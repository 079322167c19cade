#include "models/image_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "cistern/observe/files.hpp"

namespace cistern::models {
namespace {

namespace fs = std::filesystem;

// The image libraries write what they find to stderr and nowhere else. As long as one of these lives, it goes
// to a file in memory.
class TakenStderr {
 public:
  TakenStderr() {
    std::fflush(stderr);
    original_ = ::dup(STDERR_FILENO);
    taken_ = ::memfd_create("stderr", MFD_CLOEXEC);
    if (original_ >= 0 && taken_ >= 0) ::dup2(taken_, STDERR_FILENO);
  }
  TakenStderr(const TakenStderr&) = delete;
  TakenStderr& operator=(const TakenStderr&) = delete;
  ~TakenStderr() {
    std::fflush(stderr);
    if (original_ >= 0) ::dup2(original_, STDERR_FILENO);
    if (original_ >= 0) ::close(original_);
    if (taken_ >= 0) ::close(taken_);
  }

  /// The first thing that was written, up to its line's end.
  std::string first_line() const {
    std::fflush(stderr);
    char text[160];
    const ssize_t got = taken_ < 0 ? 0 : ::pread(taken_, text, sizeof text, 0);
    const std::string all(text, got > 0 ? static_cast<std::size_t>(got) : 0);
    return all.substr(0, all.find('\n'));
  }

 private:
  int original_ = -1;
  int taken_ = -1;
};

// What libjpeg says, and then goes on, of data that are not the picture.
bool tells_of_damage(const std::string& line) {
  for (const char* words : {"remature end of", "bad Huffman code"}) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

cv::Mat decoded(std::span<const std::uint8_t> file) {
  // Raw memory is not written to: imdecode takes its input const.
  const cv::Mat bytes(1, static_cast<int>(file.size()), CV_8U, const_cast<std::uint8_t*>(file.data()));
  const TakenStderr output;
  cv::Mat picture;
  try {
    picture = cv::imdecode(bytes, cv::IMREAD_UNCHANGED);
  } catch (const cv::Exception&) {  // Said on stderr too, and shorter.
  }
  const std::string said = output.first_line();
  if (picture.empty() || tells_of_damage(said))
    throw ImageError(said.empty() ? "is damaged" : "is damaged (" + said + ")");
  return picture;
}

// Colour over white, in place of colour and alpha.
cv::Mat over_white(const cv::Mat& with_alpha) {
  cv::Mat colour(with_alpha.size(), CV_8UC3);
  for (int y = 0; y < with_alpha.rows; ++y) {
    const auto* from = with_alpha.ptr<cv::Vec4b>(y);
    auto* to = colour.ptr<cv::Vec3b>(y);
    for (int x = 0; x < with_alpha.cols; ++x) {
      const int alpha = from[x][3];
      for (int c = 0; c < 3; ++c)
        to[x][c] = static_cast<std::uint8_t>((from[x][c] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
  }
  return colour;
}

cv::Mat in_colour(const cv::Mat& picture, Colour colour) {
  const bool grey = picture.channels() == 1;
  if (grey == (colour == Colour::kGrey)) {
    if (grey) return picture;
    cv::cvtColor(picture, picture, cv::COLOR_BGR2RGB);
    return picture;
  }
  cv::Mat result;
  cv::cvtColor(picture, result, grey ? cv::COLOR_GRAY2RGB : cv::COLOR_BGR2GRAY);
  return result;
}

// Orientations 5 to 8 are 1 to 4 of the picture mirrored at its main diagonal.
cv::Mat upright(const cv::Mat& picture, int orientation) {
  cv::Mat turned;
  if (orientation > 4) {
    cv::transpose(picture, turned);
  } else {
    turned = picture;
  }
  switch (orientation) {
    case 2:
    case 6:
      cv::flip(turned, turned, 1);
      break;
    case 3:
    case 7:
      cv::flip(turned, turned, -1);
      break;
    case 4:
    case 8:
      cv::flip(turned, turned, 0);
      break;
    default:
      break;
  }
  return turned;
}

void check_size(const ImageHeader& header) {
  const std::string sides = std::to_string(header.width) + "x" + std::to_string(header.height);
  if (header.width == 0 || header.height == 0) throw ImageError("has no pixels (" + sides + ")");
  if (header.width > kMostPixels || header.height > kMostPixels || header.width * header.height > kMostPixels)
    throw ImageError("has " + sides + " pixels; at most " + std::to_string(kMostPixels) + " are decoded");
}

std::vector<std::uint8_t> read_file(const fs::path& path) {
  const auto fail = [&](const std::string& what) { throw FileError(path.string(), what); };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } const closer{descriptor};
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("is no regular file");
  if (static_cast<std::uint64_t>(status.st_size) > kMostFileBytes)
    fail("is longer than the " + std::to_string(kMostFileBytes >> 20) + " MiB that are read of an image");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t now = ::read(descriptor, bytes.data() + got, bytes.size() - got);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
    if (now == 0) break;  // Cut meanwhile.
    got += static_cast<std::size_t>(now);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace

cv::Mat decode_image(std::span<const std::uint8_t> file, Colour colour) {
  const ImageHeader header = read_image_header(file);
  check_size(header);
  if (header.cut_off) throw ImageError("is damaged: it was cut short");
  cv::Mat picture = decoded(file);
  if (picture.depth() == CV_16U) picture.convertTo(picture, CV_8U, 1.0 / 257.0);
  if (picture.channels() == 4) {
    const bool bitmap = file[0] == 'B';
    if (bitmap) {
      cv::cvtColor(picture, picture, cv::COLOR_BGRA2BGR);
    } else {
      picture = over_white(picture);
    }
  }
  return upright(in_colour(picture, colour), header.orientation);
}

cv::Mat read_image(const fs::path& file, Colour colour) {
  try {
    return decode_image(read_file(file), colour);
  } catch (const ImageError& error) {
    throw FileError(file.string(), error.what());
  }
}

bool has_image_name(const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".jpg", ".jpeg", ".png", ".webp", ".bmp"}) {
    if (extension == known) return true;
  }
  return false;
}

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory() && has_image_name(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace cistern::models
