#include "cistern/observe/pickle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cistern/observe/files.hpp"
#include "support/temporary_folder.hpp"

namespace cistern {
namespace {

using Kind = PickleValue::Kind;
using namespace std::string_literals;

class PickleTest : public ::testing::Test {
 protected:
  std::string file(const std::string& instructions) {
    const std::string path = folder_.path("data.pickle");
    write_bytes(path, "\x80\x04" + instructions);
    return path;
  }
  void refuses(const std::string& instructions, const std::string& says) {
    try {
      const Pickle pickle(file(instructions));
      ADD_FAILURE() << "read: " << says;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(says));
    }
  }

  TemporaryFolder folder_;
};

TEST_F(PickleTest, IntegersKeepTheirSignAndAddressesTheirSixtyFourBits) {
  const Pickle pickle(file(
      "(J\xff\xff\xff\xffK\xffM\xff\xff\x8a\x01\xff\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00\x8a\x00t."s));
  const auto& items = pickle.root().items;
  ASSERT_EQ(items.size(), 6U);
  for (const PickleValue* item : items) EXPECT_EQ(item->kind, Kind::kInteger);
  EXPECT_EQ(items[0]->integer, -1);
  EXPECT_EQ(items[1]->integer, 255);
  EXPECT_EQ(items[2]->integer, 65535);
  EXPECT_EQ(items[3]->integer, -1);
  EXPECT_EQ(static_cast<std::uint64_t>(items[4]->integer), ~std::uint64_t{0});
  EXPECT_EQ(items[5]->integer, 0);
}

TEST_F(PickleTest, ADictionaryGivesTheLastValueOfAKey) {
  const Pickle pickle(
      file("}(\x8c\x01"
           "aK\x01\x8c\x01"
           "aK\x02N\x88u."s));
  EXPECT_EQ(pickle.root().find("a")->integer, 2);
  EXPECT_EQ(pickle.root().find("b"), nullptr);
}

TEST_F(PickleTest, FloatsAreReadAndMemoIsShared) {
  const Pickle pickle(
      file("](G\x3f\xf8\x00\x00\x00\x00\x00\x00\x94h\x00"
           "e."s));
  ASSERT_EQ(pickle.root().items.size(), 2U);
  EXPECT_EQ(pickle.root().items[0]->number, 1.5);
  EXPECT_EQ(pickle.root().items[0], pickle.root().items[1]);
}

TEST_F(PickleTest, AListMayContainItself) {
  const Pickle pickle(
      file("]\x94h\x00"
           "a."s));
  EXPECT_EQ(pickle.root().items.at(0), &pickle.root());
}

TEST_F(PickleTest, WhatBuildsObjectsIsRefused) {
  for (const char* instructions :
       {"cos\nsystem\n.", "\x93", "R", "b", "i", "o", "P1\n", "Q", "\x81", "\x92", "\x82"}) {
    refuses("]" + std::string(instructions), "wants to build an object");
  }
}

TEST_F(PickleTest, BrokenInstructionsAreRefused) {
  refuses("", "cut off");
  refuses(
      "\x8c\x05"
      "ab",
      "cut off");
  refuses(
      "X\xff\xff\xff\xff"
      "ab",
      "cut off");
  refuses(
      "\x8e\xff\xff\xff\xff\xff\xff\xff\xff"
      "ab",
      "cut off");
  refuses(".", "no value on the stack");
  refuses("u", "no mark");
  refuses(
      "K\x01K\x01"
      "a.",
      "another kind of value");
  refuses("}(K\x01u.", "a key has no value");
  refuses("h\x07.", "a value that was not kept");
  refuses("\xff", "unknown instruction 255");
}

TEST_F(PickleTest, OtherFilesAndProtocolsAreRefused) {
  const std::string path = folder_.path("other");
  write_bytes(path, "\x80\x09N.");
  EXPECT_FALSE(is_pickle(path));
  EXPECT_THROW(Pickle pickle(path), FileError);
  write_bytes(path, "(dp0\n.");
  EXPECT_THROW(Pickle pickle(path), FileError);
  EXPECT_TRUE(is_pickle(file("N.")));
}

}  // namespace
}  // namespace cistern
