#include "models/worker_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "models/sha256.hpp"

namespace cistern::models {
namespace {

TEST(WorkerTeam, CallsEachIndexOnceInEachOfManyLoops) {
  for (const int threads : {1, 2, 4}) {
    WorkerTeam team(threads);
    std::vector<std::atomic<int>> calls(37);
    for (int loop = 1; loop <= 2000; ++loop) {
      const auto count = static_cast<std::uint32_t>(loop % 38);
      for (auto& call : calls) call.store(0, std::memory_order_relaxed);
      team.for_each(count,
                    [&](std::uint32_t index) { calls[index].fetch_add(1, std::memory_order_relaxed); });
      for (std::uint32_t index = 0; index < 37; ++index) {
        ASSERT_EQ(calls[index].load(), index < count ? 1 : 0)
            << "loop " << loop << " of " << threads << " threads";
      }
    }
  }
}

TEST(WorkerTeam, WhatTheWorkWroteIsSeenAfterTheLoop) {
  WorkerTeam team(3);
  std::vector<int> squares(1000);  // Plain memory: the thread sanitizer would object.
  for (int loop = 0; loop < 200; ++loop) {
    team.for_each(1000,
                  [&](std::uint32_t index) { squares[index] = static_cast<int>(index * index) + loop; });
    for (int index = 0; index < 1000; ++index)
      ASSERT_EQ(squares[static_cast<std::size_t>(index)], index * index + loop);
  }
}

std::string sha256_of(const std::string& text, std::size_t piece) {
  Sha256 hash;
  for (std::size_t at = 0; at < text.size(); at += piece)
    hash.update(text.data() + at, std::min(piece, text.size() - at));
  return hash.finish();
}

TEST(Sha256, GivesTheStandardsExamplesInAnyPieces) {
  for (const std::size_t piece : {1, 7, 64, 1'000'000}) {
    EXPECT_EQ(sha256_of("", piece), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_of("abc", piece), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", piece),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256_of(std::string(1'000'000, 'a'), piece),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

}  // namespace
}  // namespace cistern::models
