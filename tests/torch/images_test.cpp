// Pictures from files to networks: headers, decoding, resizing, values. What the programs say of bad files is
// in tests/cli/classify_test.py.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "cistern/observe/files.hpp"
#include "models/image_file.hpp"
#include "models/image_input.hpp"
#include "support/temporary_folder.hpp"

namespace cistern::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Bytes = std::vector<std::uint8_t>;

Bytes encoded(const std::string& extension, const cv::Mat& picture, const std::vector<int>& options = {}) {
  Bytes bytes;
  EXPECT_TRUE(cv::imencode(extension, picture, bytes, options));
  return bytes;
}

// Every pixel another colour, so that no turn or mirror image is another.
cv::Mat unlike_itself(int rows, int columns) {
  cv::Mat picture(rows, columns, CV_8UC3);
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x)
      picture.at<cv::Vec3b>(y, x) =
          cv::Vec3b(static_cast<uchar>(10 + 60 * y), static_cast<uchar>(10 + 40 * x), 200);
  }
  return picture;
}

bool same(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0.0;
}

cv::Mat rgb(const cv::Mat& bgr) {
  cv::Mat result;
  cv::cvtColor(bgr, result, cv::COLOR_BGR2RGB);
  return result;
}

void append_big(Bytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

// EXIF data that say nothing but the orientation, in either byte order.
Bytes exif(int orientation, bool big) {
  const auto o = static_cast<std::uint8_t>(orientation);
  if (big) return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, o, 0, 0, 0, 0, 0, 0};
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, o, 0, 0, 0, 0, 0, 0, 0};
}

Bytes with_jpeg_exif(const Bytes& jpeg, const Bytes& data) {
  Bytes result{0xff, 0xd8, 0xff, 0xe1, 0, static_cast<std::uint8_t>(data.size() + 8),
               'E',  'x',  'i',  'f',  0, 0};
  result.insert(result.end(), data.begin(), data.end());
  result.insert(result.end(), jpeg.begin() + 2, jpeg.end());
  return result;
}

// The checksum is not looked at before the pixels are; decoders pass over a chunk they do not need.
Bytes with_png_exif(const Bytes& png, const Bytes& data) {
  Bytes chunk;
  append_big(chunk, static_cast<std::uint32_t>(data.size()));
  for (const char c : {'e', 'X', 'I', 'f'}) chunk.push_back(static_cast<std::uint8_t>(c));
  chunk.insert(chunk.end(), data.begin(), data.end());
  append_big(chunk, 0);
  Bytes result = png;
  result.insert(result.begin() + 33, chunk.begin(), chunk.end());
  return result;
}

TEST(ImageHeader, SaysTheSizeOfEveryFormatWithoutDecoding) {
  const cv::Mat picture = unlike_itself(3, 5);
  for (const char* format : {".jpg", ".png", ".webp", ".bmp"}) {
    const ImageHeader header = read_image_header(encoded(format, picture));
    EXPECT_EQ(header, (ImageHeader{5, 3})) << format;
  }
  const ImageHeader lossless = read_image_header(encoded(".webp", picture, {cv::IMWRITE_WEBP_QUALITY, 101}));
  EXPECT_EQ(lossless, (ImageHeader{5, 3}));
}

TEST(ImageHeader, NoPrefixOfAFileIsReadBeyondItsEnd) {
  for (const char* format : {".jpg", ".png", ".webp", ".bmp"}) {
    const Bytes whole = with_jpeg_exif(encoded(format, unlike_itself(3, 5)), exif(6, true));
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const Bytes prefix(whole.begin(),
                         whole.begin() + static_cast<std::ptrdiff_t>(length));  // Its own end: asan.
      try {
        read_image_header(prefix);
      } catch (const ImageError&) {
      }
    }
  }
}

TEST(Decode, TurnsAllEightOrientationsUprightInJpegAndPng) {
  const cv::Mat upright = unlike_itself(2, 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    cv::Mat stored = upright.clone();  // Undo what the orientation asks for.
    if (orientation == 5 || orientation == 7) cv::transpose(upright, stored);
    if (orientation == 2) cv::flip(stored, stored, 1);
    if (orientation == 4) cv::flip(stored, stored, 0);
    if (orientation == 3 || orientation == 7) cv::flip(stored, stored, -1);
    if (orientation == 6) cv::rotate(upright, stored, cv::ROTATE_90_COUNTERCLOCKWISE);
    if (orientation == 8) cv::rotate(upright, stored, cv::ROTATE_90_CLOCKWISE);
    for (const bool big : {false, true}) {
      const Bytes png = with_png_exif(encoded(".png", stored), exif(orientation, big));
      EXPECT_TRUE(same(decode_image(png, Colour::kRgb), rgb(upright))) << orientation;
    }
    cv::Mat large;
    cv::resize(stored, large, cv::Size(), 32, 32, cv::INTER_NEAREST);
    const Bytes jpeg =
        with_jpeg_exif(encoded(".jpg", large, {cv::IMWRITE_JPEG_QUALITY, 100}), exif(orientation, true));
    cv::Mat wanted;
    cv::resize(rgb(upright), wanted, cv::Size(), 32, 32, cv::INTER_NEAREST);
    const cv::Mat found = decode_image(jpeg, Colour::kRgb);
    ASSERT_EQ(found.size(), wanted.size()) << orientation;
    EXPECT_LT(cv::norm(found, wanted, cv::NORM_L1) / static_cast<double>(wanted.total()), 12.0)
        << orientation;
  }
}

TEST(Decode, ColoursComeAsRgbWhateverTheFile) {
  const cv::Mat red(4, 4, CV_8UC3, cv::Scalar(0, 0, 255));
  for (const char* format : {".png", ".bmp"}) {
    EXPECT_EQ(decode_image(encoded(format, red), Colour::kRgb).at<cv::Vec3b>(1, 1), cv::Vec3b(255, 0, 0))
        << format;
  }
  for (const char* format : {".jpg", ".webp"}) {
    const cv::Vec3b pixel = decode_image(encoded(format, red), Colour::kRgb).at<cv::Vec3b>(1, 1);
    EXPECT_GT(pixel[0], 240) << format;
    EXPECT_LT(pixel[2], 20) << format;
  }
}

TEST(Decode, GreyAndColourBecomeEachOther) {
  const cv::Mat grey(4, 4, CV_8UC1, cv::Scalar(77));
  EXPECT_EQ(decode_image(encoded(".png", grey), Colour::kRgb).at<cv::Vec3b>(0, 0), cv::Vec3b(77, 77, 77));
  EXPECT_EQ(decode_image(encoded(".png", grey), Colour::kGrey).at<uchar>(0, 0), 77);
  const cv::Mat red(4, 4, CV_8UC3, cv::Scalar(0, 0, 255));
  EXPECT_EQ(decode_image(encoded(".png", red), Colour::kGrey).at<uchar>(0, 0), 76);  // 0.299 of 255
}

TEST(Decode, SixteenBitsAreRoundedToEight) {
  const cv::Mat deep(2, 2, CV_16UC3, cv::Scalar(256, 257 * 100 + 128, 65535));
  EXPECT_EQ(decode_image(encoded(".png", deep), Colour::kRgb).at<cv::Vec3b>(0, 0), cv::Vec3b(255, 100, 1));
  const cv::Mat grey(2, 2, CV_16UC1, cv::Scalar(257 * 33));
  EXPECT_EQ(decode_image(encoded(".png", grey), Colour::kGrey).at<uchar>(0, 0), 33);
}

TEST(Decode, WhatIsTransparentIsWhiteAndBmpsFourthByteIsNot) {
  cv::Mat picture(1, 3, CV_8UC4);
  picture.at<cv::Vec4b>(0, 0) = {0, 0, 200, 0};
  picture.at<cv::Vec4b>(0, 1) = {0, 0, 200, 255};
  picture.at<cv::Vec4b>(0, 2) = {0, 0, 200, 51};  // A fifth.
  const cv::Mat found = decode_image(encoded(".png", picture), Colour::kRgb);
  EXPECT_EQ(found.at<cv::Vec3b>(0, 0), cv::Vec3b(255, 255, 255));
  EXPECT_EQ(found.at<cv::Vec3b>(0, 1), cv::Vec3b(200, 0, 0));
  EXPECT_EQ(found.at<cv::Vec3b>(0, 2), cv::Vec3b(244, 204, 204));
  cv::Mat deep;
  picture.convertTo(deep, CV_16U, 257.0);
  EXPECT_TRUE(same(decode_image(encoded(".png", deep), Colour::kRgb), found));
  EXPECT_EQ(decode_image(encoded(".bmp", picture), Colour::kRgb).at<cv::Vec3b>(0, 0), cv::Vec3b(200, 0, 0));
}

TEST(Decode, ASizeBeyondAllBoundsIsRefusedFromTheHeaderAlone) {
  const auto refused = [](const Bytes& file, const char* says) {
    EXPECT_THAT([&] { decode_image(file, Colour::kRgb); }, ThrowsMessage<ImageError>(HasSubstr(says)));
  };
  Bytes png = encoded(".png", unlike_itself(2, 2));
  for (const std::size_t at : {16u, 20u}) png[at + 1] = 1;  // 65538 x 65538
  refused(png, "65538x65538 pixels; at most 67108864");
  for (const std::size_t at : {16u, 20u}) png[at] = 0xff;
  refused(png, "pixels; at most");
  Bytes bmp = encoded(".bmp", unlike_itself(2, 2));
  bmp[18 + 3] = bmp[22 + 3] = 0x7f;
  refused(bmp, "pixels; at most");
  bmp[22 + 3] = 0x80;  // From the top, and the least there is.
  refused(bmp, "pixels; at most");
  Bytes webp = encoded(".webp", unlike_itself(2, 2), {cv::IMWRITE_WEBP_QUALITY, 101});
  for (const std::size_t at : {21u, 22u, 23u, 24u}) webp[at] = 0xff;  // 16384 x 16384
  refused(webp, "pixels; at most");
  Bytes none = encoded(".png", unlike_itself(2, 2));
  none[19] = 0;
  refused(none, "no pixels (0x2)");
}

TEST(Decode, WhatIsCutOffOrNoImageIsRefusedAndNothingReachesStderr) {
  ::testing::internal::CaptureStderr();
  for (const char* format : {".jpg", ".png", ".webp", ".bmp"}) {
    Bytes file = encoded(format, unlike_itself(40, 50));
    file.resize(file.size() * 2 / 3);
    EXPECT_THAT([&] { decode_image(file, Colour::kRgb); }, ThrowsMessage<ImageError>(HasSubstr("damaged")))
        << format;
  }
  Bytes scribbled = encoded(".jpg", unlike_itself(40, 50));
  scribbled[scribbled.size() - 40] = 0xff,
                               scribbled[scribbled.size() - 39] = 0x20;  // No pixels, but no end either.
  EXPECT_THAT([&] { decode_image(scribbled, Colour::kRgb); },
              ThrowsMessage<ImageError>(HasSubstr("damaged")));
  EXPECT_THAT([] { decode_image({}, Colour::kRgb); }, ThrowsMessage<ImageError>(HasSubstr("is empty")));
  const Bytes text{'h', 'e', 'l', 'l', 'o'};
  EXPECT_THAT([&] { decode_image(text, Colour::kRgb); }, ThrowsMessage<ImageError>(HasSubstr("no JPEG")));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Decode, FilesAreNamedInWhatIsWrongWithThem) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { read_image(folder.path("missing.png"), Colour::kRgb); },
              ThrowsMessage<FileError>(HasSubstr("missing.png: cannot be read: No such file")));
  EXPECT_THAT([&] { read_image(folder.path(""), Colour::kRgb); },
              ThrowsMessage<FileError>(HasSubstr("no regular file")));
  write_bytes(folder.path("empty.png"), "");
  EXPECT_THAT([&] { read_image(folder.path("empty.png"), Colour::kRgb); },
              ThrowsMessage<FileError>(HasSubstr("empty.png: is empty")));
}

TEST(Resize, OfTheReferencePicturesIsTheReferenceInput) {
  const char* data = std::getenv("CISTERN_SHARED_DATA");
  const std::string folder =
      data ? std::string(data) + "/mobilenet_v2" : CISTERN_SOURCE_DIR "/../shared/data/mobilenet_v2";
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "no " << folder << "; CISTERN_SHARED_DATA may name its parent";
  for (const std::string name : {"bird.bmp", "cat.bmp", "dragonfly.bmp", "grace_hopper.bmp", "parrot.jpg"}) {
    const cv::Mat small =
        resized(read_image(folder + "/images/" + name, Colour::kRgb), 224, Resize::kBilinear);
    std::string wanted = read_bytes(folder + "/reference/" + name.substr(0, name.size() - 4) + ".rgb_u8");
    ASSERT_EQ(wanted.size(), 224u * 224 * 3);
    const cv::Mat reference(224, 224, CV_8UC3, wanted.data());
    EXPECT_LE(cv::norm(small, reference, cv::NORM_INF), name == "parrot.jpg" ? 2 : 0)
        << name;  // JPEG decoders differ.
  }
}

TEST(Resize, ToTheSameSizeChangesNothingWhicheverWay) {
  const cv::Mat picture = unlike_itself(4, 4);
  EXPECT_TRUE(same(resized(picture, 4, Resize::kBilinear), picture));
  EXPECT_TRUE(same(resized(picture, 4, Resize::kAntialias), picture));
}

TEST(Resize, AntialiasSeesWhatBilinearSkips) {
  cv::Mat stripes(64, 64, CV_8UC1, cv::Scalar(0));
  for (int x = 0; x < 64; x += 8) stripes.col(x).setTo(255);  // An eighth of the light.
  EXPECT_EQ(cv::mean(resized(stripes, 8, Resize::kBilinear))[0], 0.0);
  EXPECT_NEAR(cv::mean(resized(stripes, 8, Resize::kAntialias))[0], 255 / 8.0, 3.0);
}

TEST(Resize, CropTakesTheMiddleAndKeepsProportions) {
  cv::Mat wide(80, 200, CV_8UC3, cv::Scalar(0, 0, 0));
  cv::circle(wide, cv::Point(100, 40), 20, cv::Scalar(255, 255, 255), cv::FILLED);
  const cv::Mat square = resized(wide, 70, Resize::kCrop);  // 70 of 80 rows: not scaled.
  EXPECT_EQ(square.size(), cv::Size(70, 70));
  EXPECT_TRUE(same(square, wide(cv::Rect(65, 5, 70, 70))));
}

TEST(PixelValues, FollowTheWeightsPreprocessing) {
  cv::Mat picture(1, 1, CV_8UC3);
  picture.at<cv::Vec3b>(0, 0) = {0, 127, 255};
  float values[3];
  PixelValues({1, 3, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}).write(picture, values);  // -1..1
  EXPECT_FLOAT_EQ(values[0], -1.0f);
  EXPECT_FLOAT_EQ(values[1], static_cast<float>(127 / 127.5 - 1));
  EXPECT_FLOAT_EQ(values[2], 1.0f);
  PixelValues({1, 3, {0.0, 0.0, 0.485}, {1.0, 1.0, 0.229}}).write(picture, values);
  EXPECT_FLOAT_EQ(values[0], 0.0f);
  EXPECT_FLOAT_EQ(values[1], 127.0f / 255.0f);
  EXPECT_FLOAT_EQ(values[2], static_cast<float>((1.0 - 0.485) / 0.229));
}

// OpenCV brings a reference BLAS along; before torch's own in the loader's order, it makes products 20 times
// slower.
TEST(Images, TorchStillMultipliesWithItsOwnBlas) {
  Dl_info found{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "sgemm_"), &found), 0);
  EXPECT_THAT(found.dli_fname, HasSubstr("libtorch_cpu"));
}

}  // namespace
}  // namespace cistern::models
