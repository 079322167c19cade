// What a program says of "cpu" reaches torch's CPU tensors.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/memory.hpp"

namespace cistern {
namespace {

at::Tensor tensor(std::int64_t mebibytes) { return at::empty({mebibytes << 20}, at::kByte); }

TEST(CpuMemory, HasFiguresAndALimitThatChanges) {
  install_cpu();
  const std::size_t before = memory_info("cpu").current_bytes;
  const at::Tensor kept = tensor(4);
  EXPECT_EQ(memory_info("cpu").current_bytes, before + 4 * kMiB);
  trim("cpu");
  set_memory_limit("cpu", Amount{memory_info("cpu").reserved_bytes + 8 * kMiB});
  EXPECT_THROW(tensor(64), c10::OutOfMemoryError);
  clear_memory_limit("cpu");
  EXPECT_NO_THROW(tensor(64));
}

TEST(CpuMemory, OfATenantHasALimitOfItsOwn) {
  install_cpu();
  MemoryPool pool("cpu", Amount{32 * kMiB});
  at::Tensor kept;
  {
    const ScopedPool scope(pool);
    kept = tensor(20);
    EXPECT_THROW(tensor(20), c10::OutOfMemoryError);
    std::thread([] { EXPECT_NO_THROW(tensor(64)); }).join();
  }
  EXPECT_NO_THROW(tensor(64));
  EXPECT_EQ(pool.info().current_bytes, 20 * kMiB);
  kept.reset();
  EXPECT_EQ(pool.trim(), 20 * kMiB);
}

}  // namespace
}  // namespace cistern
