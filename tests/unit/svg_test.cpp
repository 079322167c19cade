#include "cistern/observe/svg.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace cistern {
namespace {

constexpr std::uint64_t kBase = std::uint64_t{1} << 40;
constexpr std::uint64_t kBytes = 64 << 20;

Event event(EventKind kind, std::uint64_t address, std::uint64_t bytes) {
  Event result;
  result.kind = kind;
  result.address = kBase + address;
  result.bytes = bytes;
  result.granted_bytes = bytes;
  return result;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t result = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++result;
  return result;
}

std::vector<Event> two_blocks() {
  return {event(EventKind::kCommit, 0, 2 * kBytes), event(EventKind::kAllocate, 0, kBytes),
          event(EventKind::kAllocate, kBytes, kBytes), event(EventKind::kFree, kBytes, kBytes)};
}

TEST(Svg, DrawsOneRectanglePerBlockAndTheReservedLine) {
  const std::string svg = draw_heap("two <blocks>", {{"growth", two_blocks()}});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_NE(svg.find("two &lt;blocks&gt;"), std::string::npos);
  EXPECT_NE(svg.find("growth: at most 128 MiB reserved"), std::string::npos);
  EXPECT_NE(svg.find("3 operations"), std::string::npos);
  EXPECT_EQ(count(svg, "h-"), 3u) << "two blocks and the memory under them are closed shapes";
}

TEST(Svg, PanelsStandSideBySideOnOneScale) {
  const std::string one = draw_heap("x", {{"growth", two_blocks()}});
  const std::string two = draw_heap("x", {{"growth", two_blocks()}, {"preallocate", two_blocks()}});
  EXPECT_NE(two.find("preallocate: at most"), std::string::npos);
  EXPECT_GT(two.size(), one.size());
  EXPECT_EQ(count(two, "reserved, not in use"), 1u) << "one legend";
}

TEST(Svg, MemoryTakenAwayInPartsIsDrawnInParts) {
  const std::string svg = draw_heap(
      "x", {{"growth",
             {event(EventKind::kCommit, 0, 3 * kBytes), event(EventKind::kAllocate, 0, kBytes),
              event(EventKind::kDecommit, kBytes, kBytes), event(EventKind::kAllocate, 2 * kBytes, kBytes),
              event(EventKind::kFree, 0, kBytes)}}});
  EXPECT_EQ(count(svg, "h-"), 3u + 2u);
}

TEST(Svg, StaysSmallWhateverTheTrace) {
  std::vector<Event> events{event(EventKind::kCommit, 0, 40000 * std::uint64_t{1 << 20})};
  for (std::uint64_t block = 0; block < 40000; ++block) {
    events.push_back(event(EventKind::kAllocate, block << 20, 1 << 20));
    if (block % 3 == 0) events.push_back(event(EventKind::kFree, block << 20, 1 << 20));
  }
  EXPECT_LT(draw_heap("x", {{"growth", events}, {"preallocate", events}}).size(), 130000u);
}

TEST(Svg, AnEmptyRecordingIsAnEmptyPicture) {
  const std::string svg = draw_heap("nothing", {{"growth", {}}});
  EXPECT_NE(svg.find("at most 0 B reserved"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace cistern
