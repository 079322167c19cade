// The C++ blocks of docs/from-tensorflow.md, as one program over the fake runtime.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <string>

#include "support/fake_cudart/control.hpp"

// Blocks show values that nobody uses.
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#include "from_tensorflow_snippets.inc"

namespace {

TEST(FromTensorFlow, TheBlocksOfThePageDoWhatItSays) {
  run_snippets();
  const cistern::MemoryInfo first = cistern::memory_info("cuda:0");
  EXPECT_EQ(first.limit_bytes, std::nullopt);
  EXPECT_EQ(first.current_bytes, 0u);
  EXPECT_EQ(first.peak_bytes, 20 * cistern::kMiB) << "weights and more, when the peak was reset";
  EXPECT_EQ(cistern::memory_info("cuda:1").strategy, cistern::Strategy::kPreallocate);
  EXPECT_EQ(cistern::memory_info("cuda:1").limit_bytes, cistern::memory_info("cuda:1").capacity_bytes / 2);
  EXPECT_EQ(cistern::memory_info("pinned").limit_bytes, 256 * cistern::kMiB);
  EXPECT_STREQ(fakecuda_misuses(), "");
}

}  // namespace
