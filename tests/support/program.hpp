// A program: what a test does to an allocator, as data. It prints as text that can be pasted into a test or a
// corpus file, and every part of it may be removed or changed without making it invalid, so that it shrinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cistern/base/result.hpp"
#include "cistern/base/units.hpp"
#include "cistern/core/config.hpp"

namespace cistern::support {

/// The allocator, the source and the streams a program starts with. Sizes are bytes; flags are 0 or 1.
struct Setup {
  std::size_t strategy = 0;  ///< Strategy, by number.
  std::size_t trim = 0;      ///< TrimMode, by number.
  std::size_t high_water = 0;
  std::size_t limit = 0;  ///< 0: none.
  std::size_t preallocate = 0;
  std::size_t headroom = 0;
  std::size_t slack_percent = 1;
  std::size_t least_block = 512;
  std::size_t small_block = kMiB;
  std::size_t whole_only = 0;
  std::size_t granule = 2 * kMiB;
  std::size_t capacity = kGiB;
  std::size_t range_step = 0;  ///< 0: the capacity.
  std::size_t fences = 1;      ///< 0: no StreamFences, as on a CPU.
  std::size_t streams = 1;
  std::size_t pools = 0;       ///< Besides the default pool.
  std::size_t pool_limit = 0;  ///< Of each pool; 0: none.

  Options options() const;
};

enum class Op : std::uint8_t {
  kAllocate,      ///< bytes, log2 of the alignment, stream, pool
  kFree,          ///< which of the live grants
  kBadFree,       ///< kind of bad address, which grant it is near
  kRecordStream,  ///< which of the live grants, stream
  kQueue,         ///< stream: one more piece of work
  kComplete,      ///< stream, pieces of work
  kTrim,          ///< bytes to keep
  kTick,
  kSetLimit,    ///< bytes, pool
  kClearLimit,  ///< pool
  kRefuse,      ///< so many of the next source calls that can fail; kForever: all from now on
  kCapture,     ///< 1: streams capture from now on, 0: no longer
  kReset,       ///< 0: peaks, 1: accumulated
};
inline constexpr std::size_t kOpCount = 13;
inline constexpr std::uint64_t kForever = ~std::uint64_t{0};

/// Numbers out of range are taken modulo what there is, so any numbers make a valid step.
struct Step {
  Op op = Op::kAllocate;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t d = 0;
};

struct Program {
  Setup setup;
  std::vector<Step> steps;
};

/// One line "setup key=value ..." with what differs from the default, then one line a step: "allocate 4096 9
/// 0 0".
std::string to_text(const Program& program);
/// Reads what to_text writes; '#' starts a comment. Fails with the line and what is wrong with it.
Result<Program, std::string> parse_program(std::string_view text);

}  // namespace cistern::support
