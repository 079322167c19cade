// What is done to two CUDA allocators alike, as data. Prints as text that can be pasted into a file of
// corpus/; any part may be removed or changed without making it invalid, so that it shrinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cistern/base/result.hpp"
#include "cistern/base/units.hpp"

namespace cistern::support {

enum class DeviceOp : std::uint8_t {
  kAllocate,  ///< bytes, stream
  kFree,      ///< which allocation, by its number among the program's; the latest live one if there is none
  kRecordStream,  ///< which allocation, stream: work there uses it from now on
  kHold,          ///< stream: what is queued from now on waits
  kAdvance,       ///< stream, pieces of work
  kRelease,       ///< stream
  kEmptyCache,
  kFraction,     ///< percent of the device
  kSqueeze,      ///< percent of the device that somebody else leaves to us
  kBeginPool,    ///< pool, stream: its requests go to the pool, as while a graph is captured
  kEndPool,      ///< pool
  kReleasePool,  ///< pool: one use less, as when a graph dies
};

/// Numbers out of range are taken modulo what there is, and what makes no sense at that point is not done.
struct DeviceStep {
  DeviceOp op = DeviceOp::kAllocate;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

struct DeviceProgram {
  std::size_t device_bytes = 4 * kGiB;
  std::size_t streams = 1;
  std::size_t malloc =
      0;  ///< 1: ours takes whole segments by cudaMalloc, as native does, instead of granules.
  std::vector<DeviceStep> steps;
};

inline constexpr std::uint64_t kLatest = ~std::uint64_t{0};

std::string to_text(const DeviceProgram& program);
/// Reads what to_text writes; '#' starts a comment. Fails with the line that cannot be read.
Result<DeviceProgram, std::string> parse_device_program(std::string_view text);

/// The shapes of what programs do, each a share of all seeds (see kShapeOfSeed).
enum class Shape : std::uint8_t {
  kTraining,  ///< Forward keeps activations, backward frees them last in, first out; gradients, workspaces, a
              ///< prefetch.
  kInference,  ///< Requests of changing length through ping-pong buffers, a cache that grows by copying.
  kUniform,    ///< Any size from 512 B to 200 MiB, any block freed.
  kStreams,    ///< Producers and consumers on held streams.
  kTight,      ///< More is wanted than there is: limits move, somebody else takes memory.
  kPools,      ///< Graphs are captured into pools, live on, and die.
};
inline constexpr std::size_t kShapeCount = 6;
const char* shape_name(Shape shape) noexcept;
/// Of ten seeds three train, two infer, two are uniform, and one each the rest.
Shape shape_of_seed(std::uint64_t seed) noexcept;

DeviceProgram generate_device_program(std::uint64_t seed, std::size_t step_count);

}  // namespace cistern::support
