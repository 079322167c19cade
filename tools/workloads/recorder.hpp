// What generators write with: allocations by handle, and seeded chance.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "cistern/base/check.hpp"
#include "cistern/base/units.hpp"
#include "cistern/observe/replay_program.hpp"

namespace cistern::workloads {

class Recorder {
 public:
  struct Block {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stream = 0;
  };

  explicit Recorder(std::uint64_t seed) : chance_(seed) {}

  Block allocate(std::uint64_t bytes, std::uint64_t stream = 0, std::uint64_t pool = 0) {
    const Block block{count_++, bytes, stream};
    expect_valid(builder_.allocate(block.id, bytes, stream, pool));
    return block;
  }
  void free(const Block& block) { expect_valid(builder_.free(block.id, block.bytes, block.stream)); }
  template <class Blocks>
  void free_all(const Blocks& blocks) {
    for (const Block& block : blocks) free(block);
  }
  /// Allocates and frees: a temporary of one operator.
  void touch(std::uint64_t bytes, std::uint64_t stream = 0, std::uint64_t pool = 0) { free(allocate(bytes, stream, pool)); }
  void use(const Block& block, std::uint64_t stream) { expect_valid(builder_.use(block.id, block.bytes, stream)); }
  void sync(std::uint64_t stream) { builder_.sync(stream); }

  /// In [low, high]. The engine is the same on every standard library, unlike its distributions.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + chance_() % (high - low + 1); }
  bool percent(std::uint64_t percent) { return between(1, 100) <= percent; }

  ReplayProgram take() { return builder_.take(std::string()); }

 private:
  // Only a generator's own mistake makes an invalid operation.
  static void expect_valid(const std::optional<std::string>& wrong) {
    const bool operation_is_valid = !wrong;
    CISTERN_CHECK_EQ(operation_is_valid, true);
  }

  std::mt19937_64 chance_;
  ReplayProgramBuilder builder_;
  std::uint64_t count_ = 0;
};

}  // namespace cistern::workloads
