#include "cistern/observe/csv_trace.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cistern/observe/files.hpp"
#include "support/temporary_folder.hpp"

namespace cistern {
namespace {

const std::string kHeader = "action,id,bytes,stream\n";

class CsvTrace : public testing::Test {
 protected:
  ReplayProgram load(const std::string& text, const std::string& name = "trace.csv") {
    OutputFile file(folder_.path(name));
    file.write(text);
    file.close();
    return load_csv_program(folder_.path(name));
  }

  /// The complaint without the file's name.
  std::string complaint(const std::string& text, const std::string& name = "trace.csv") {
    try {
      load(text, name);
    } catch (const FileError& error) {
      const std::string what = error.what();
      const std::string start = folder_.path(name) + ": ";
      EXPECT_EQ(what.substr(0, start.size()), start);
      EXPECT_EQ(what.find('\n'), std::string::npos) << "one line";
      return what.substr(start.size());
    }
    return "no complaint";
  }

  TemporaryFolder folder_;
};

TEST_F(CsvTrace, LoadsOperationsAndFindsThePeak) {
  const ReplayProgram program = load("# peak_live_bytes=300 other=1\n" + kHeader +
                                     "alloc,7,100,0\nalloc,9,200,3\nfree,7,100,0\nalloc,7,50,1\n");
  EXPECT_EQ(program.name, "trace");
  EXPECT_EQ(program.block_count, 3u);
  EXPECT_EQ(program.lower_bound_bytes, 300u);
  ASSERT_EQ(program.operations.size(), 4u);
  EXPECT_EQ(program.operations[1].stream, 3u);
  EXPECT_EQ(program.operations[2].action, ReplayOperation::Action::kFree);
  EXPECT_EQ(program.operations[2].block, 0u);
  EXPECT_EQ(program.operations[3].block, 2u) << "an id used again is another block";
}

TEST_F(CsvTrace, PlainAndGzipAndWindowsLinesAreTheSame) {
  const std::string text = kHeader + "alloc,1,10,0\nfree,1,10,0\n";
  EXPECT_EQ(load(text, "x.csv.gz").operations.size(), 2u);
  EXPECT_EQ(load(text, "x.csv.gz").name, "x");
  EXPECT_EQ(load("action,id,bytes,stream\r\nalloc,1,10,0\r\nfree,1,10,0").operations.size(), 2u);
}

TEST_F(CsvTrace, LinesMayCrossTheReadBuffer) {
  std::string text = kHeader;
  for (int id = 0; id < 20000; ++id) text += "alloc," + std::to_string(id) + ",512,0\n";
  EXPECT_EQ(load(text).lower_bound_bytes, 20000u * 512u);
}

TEST_F(CsvTrace, EachWrongLineIsNamed) {
  EXPECT_EQ(complaint(kHeader + "free,5,10,0\n"), "line 2: frees 5, which is not live");
  EXPECT_EQ(complaint(kHeader + "alloc,5,10,0\nalloc,5,10,0\n"),
            "line 3: allocates 5, which is live already");
  EXPECT_EQ(complaint(kHeader + "alloc,5,10,0\nfree,5,11,0\n"),
            "line 3: frees 5 with 11 bytes, allocated with 10");
  EXPECT_EQ(complaint(kHeader + "alloc,5,-10,0\n"), "line 2: bytes is negative: -10");
  EXPECT_EQ(complaint(kHeader + "alloc,5,9223372036854775808,0\n"),
            "line 2: 9223372036854775808 bytes bring the live bytes above 2^60: no device holds that");
  EXPECT_EQ(complaint(kHeader + "alloc,5,99999999999999999999,0\n"),
            "line 2: bytes is above 2^64: 99999999999999999999");
  EXPECT_EQ(complaint(kHeader + "alloc,5,0,0\n"), "line 2: an allocation of 0 bytes");
  EXPECT_EQ(complaint(kHeader + "alloc,5,12x,0\n"), "line 2: bytes is not a number: \"12x\"");
  EXPECT_EQ(complaint(kHeader + "grow,5,12,0\n"),
            "line 2: unknown action \"grow\": alloc, free, use or sync is expected");
  EXPECT_EQ(complaint(kHeader + "alloc,5,12\n"),
            "line 2: expected four fields action,id,bytes,stream, found \"alloc,5,12\"");
  EXPECT_EQ(complaint(kHeader + "alloc,5,12,0,0\n"),
            "line 2: expected four fields action,id,bytes,stream, found \"alloc,5,12,0,0\"");
}

TEST_F(CsvTrace, LiveBytesCannotOverflow) {
  const std::string half = std::to_string(std::uint64_t{1} << 59);
  const std::string line = "," + half + ",0\n";
  EXPECT_EQ(complaint(kHeader + "alloc,1" + line + "alloc,2" + line + "alloc,3" + line),
            "line 4: " + half + " bytes bring the live bytes above 2^60: no device holds that");
}

TEST_F(CsvTrace, WhatIsNoTraceIsSaidSo) {
  EXPECT_EQ(complaint(""), "no header action,id,bytes,stream: not a trace");
  EXPECT_EQ(complaint("# only a comment\n"), "no header action,id,bytes,stream: not a trace");
  EXPECT_EQ(complaint("alloc,1,10,0\n"),
            "line 1: expected the header action,id,bytes,stream, found \"alloc,1,10,0\"");
  EXPECT_EQ(complaint("\x7f"
                      "ELF\x01"),
            "line 1: expected the header action,id,bytes,stream, found \"?ELF?\"");
  EXPECT_EQ(complaint(std::string(100000, 'x')), "a line is longer than 64 KiB: not a text file?");
  EXPECT_EQ(complaint(kHeader), "no operation after the header");
}

TEST_F(CsvTrace, MissingLinesShowAgainstTheDeclaredPeak) {
  EXPECT_EQ(complaint("# peak_live_bytes=300\n" + kHeader + "alloc,1,100,0\n"),
            "says peak_live_bytes=300 but reaches 100: lines are missing");
}

TEST_F(CsvTrace, AGzipStreamCutOffOrCorruptIsAnError) {
  std::string text = kHeader;
  for (int id = 0; id < 1000; ++id) text += "alloc," + std::to_string(id) + ",512,0\n";
  load(text, "whole.csv.gz");
  const std::string packed = read_bytes(folder_.path("whole.csv.gz"));
  for (const std::size_t bytes : {packed.size() - 1, packed.size() / 2, std::size_t{20}}) {
    write_bytes(folder_.path("cut.csv.gz"), packed.substr(0, bytes));
    try {
      load_csv_program(folder_.path("cut.csv.gz"));
      FAIL() << "accepted " << bytes << " of " << packed.size() << " bytes";
    } catch (const FileError& error) {
      EXPECT_EQ(error.what(), folder_.path("cut.csv.gz") + ": the gzip stream is cut off");
    }
  }
  std::string corrupt = packed;
  corrupt[corrupt.size() / 2] = static_cast<char>(corrupt[corrupt.size() / 2] ^ 0x55);
  write_bytes(folder_.path("corrupt.csv.gz"), corrupt);
  EXPECT_THROW(load_csv_program(folder_.path("corrupt.csv.gz")), FileError);
}

TEST_F(CsvTrace, AMissingFileOrAFolderIsSaidSo) {
  EXPECT_THROW(load_csv_program(folder_.path("nothing.csv")), FileError);
  EXPECT_THROW(load_csv_program(folder_.path("")), FileError);
}

}  // namespace
}  // namespace cistern
