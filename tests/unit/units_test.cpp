#include "cistern/base/units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cistern {
namespace {

using ::testing::HasSubstr;

std::size_t bytes_of(std::string_view text) {
  const auto amount = parse_amount(text);
  EXPECT_TRUE(amount) << (amount ? "" : amount.error());
  return amount ? amount->bytes : 0;
}

std::string error_of(std::string_view text) {
  const auto amount = parse_amount(text);
  EXPECT_FALSE(amount) << text;
  return amount ? "" : amount.error();
}

TEST(Units, RoundsToPowersOfTwo) {
  EXPECT_EQ(round_up(0, 512), 0u);
  EXPECT_EQ(round_up(1, 512), 512u);
  EXPECT_EQ(round_up(512, 512), 512u);
  EXPECT_EQ(round_up(513, 512), 1024u);
  EXPECT_EQ(round_down(511, 512), 0u);
  EXPECT_EQ(round_down(1023, 512), 512u);
}

TEST(Units, ReadsBinaryAndDecimalSizes) {
  EXPECT_EQ(bytes_of("4096"), 4096u);
  EXPECT_EQ(bytes_of("4096B"), 4096u);
  EXPECT_EQ(bytes_of("512MiB"), 512 * kMiB);
  EXPECT_EQ(bytes_of("512miB"), 512 * kMiB);
  EXPECT_EQ(bytes_of("1.5GiB"), kGiB + kGiB / 2);
  EXPECT_EQ(bytes_of("100MB"), 100'000'000u);
  EXPECT_EQ(bytes_of("2KB"), 2000u);
  EXPECT_EQ(bytes_of("2TiB"), 2048 * kGiB);
  EXPECT_EQ(bytes_of("0"), 0u);
}

TEST(Units, KeepsLargeWholeNumbersExact) {
  EXPECT_EQ(bytes_of("9007199254740993"), 9007199254740993u);  // 2^53 + 1: no double holds it
  EXPECT_EQ(bytes_of("9223372036854774784"), 9223372036854774784u);
}

TEST(Units, ReadsSharesOfTheDevice) {
  const auto amount = parse_amount("80%");
  ASSERT_TRUE(amount);
  EXPECT_EQ(amount->bytes, 0u);
  EXPECT_DOUBLE_EQ(amount->share, 0.8);
  EXPECT_EQ(amount->resolve(10 * kGiB), 8 * kGiB);
  EXPECT_EQ(parse_amount("100%")->resolve(kGiB), kGiB);
}

TEST(Units, SaysWhatIsWrongWithASize) {
  EXPECT_THAT(error_of(""), HasSubstr("missing"));
  EXPECT_THAT(error_of("banana"), HasSubstr("'banana' is not a size"));
  EXPECT_THAT(error_of("-1MiB"), HasSubstr("negative"));
  EXPECT_THAT(error_of("5MIB"), HasSubstr("unknown unit 'MIB'"));
  EXPECT_THAT(error_of("5 MiB"), HasSubstr("unknown unit"));
  EXPECT_THAT(error_of("0%"), HasSubstr("share"));
  EXPECT_THAT(error_of("101%"), HasSubstr("share"));
  EXPECT_THAT(error_of("9223372036854775808"), HasSubstr("too large"));
  EXPECT_THAT(error_of("8388608TiB"), HasSubstr("too large"));
  EXPECT_THAT(error_of("nan"), HasSubstr("not a size"));
  EXPECT_THAT(error_of("inf"), HasSubstr("not a size"));
}

TEST(Units, RefusesALimitTooSmallToBeMeant) {
  const auto limit = parse_limit("512");
  ASSERT_FALSE(limit);
  EXPECT_THAT(limit.error(), HasSubstr("did you mean 512MiB?"));
  EXPECT_TRUE(parse_limit("512B")) << "with a unit it is meant";
  EXPECT_TRUE(parse_limit("1048576"));
  EXPECT_TRUE(parse_limit("50%"));
}

TEST(Units, RefusesAShareWhereBytesAreWanted) {
  EXPECT_FALSE(parse_size("80%"));
  EXPECT_EQ(parse_size("3KiB").value(), 3 * kKiB);
}

TEST(Units, WritesSizesAsAPersonWould) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(3), "3 B");
  EXPECT_EQ(format_bytes(512 * kMiB), "512 MiB");
  EXPECT_EQ(format_bytes(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(~std::size_t{0}), "16 EiB");
}

}  // namespace
}  // namespace cistern
