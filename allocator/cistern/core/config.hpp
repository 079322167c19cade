// What a user may choose, and the grammar in which CISTERN_CONF says it: key:value,key:value
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cistern/base/result.hpp"
#include "cistern/base/units.hpp"
#include "cistern/core/plan.hpp"

namespace cistern {

enum class Strategy : std::uint8_t {
  kGrowth,       ///< On demand, to the granule.
  kGeometric,    ///< Doubling, as TensorFlow grows.
  kPreallocate,  ///< All at the first allocation.
  kPlan,         ///< Where a plan says, which was computed from a recorded run; what it does not expect, on demand.
};

enum class TrimMode : std::uint8_t {
  kKeepAll,         ///< Idle memory stays until asked for by trim() or a miss.
  kAboveHighWater,  ///< A free returns what is idle above the high-water mark.
  kIdle,            ///< A tick returns what nobody touched since the tick before.
};

/// Which source a device takes its memory from, where there is a choice.
enum class SourceChoice : std::uint8_t {
  kAuto,    ///< vmm where the driver has it, else malloc.
  kVmm,     ///< Address space first, memory by the granule.
  kMalloc,  ///< Segments that come and go whole.
};

enum class Misuse : std::uint8_t { kAbort, kReport };

/// One aggregate with defaults. Every field is reachable from CISTERN_CONF under the key in its comment.
struct Options {
  Strategy strategy = Strategy::kGrowth;  ///< strategy:growth|geometric|preallocate|plan
  std::optional<Amount> limit{};          ///< limit:SIZE or limit:N% of the capacity. None: the device is the limit.
  Amount preallocate{};                   ///< preallocate:SIZE or N%. 0: the limit, or what is free less headroom.
  std::size_t headroom_bytes = 0;         ///< headroom:SIZE left free on the device by preallocation.
  double remap_slack = 0.01;              ///< remap_slack:SHARE of peak active a miss may create before it remaps;
                                          ///< 1 or more: never remap.
  TrimMode trim = TrimMode::kKeepAll;     ///< trim:keep_all|above_high_water|idle
  std::size_t high_water_bytes = 0;       ///< high_water:SIZE for trim:above_high_water
  SourceChoice source = SourceChoice::kAuto;  ///< source:auto|vmm|malloc for device memory
  Misuse misuse = Misuse::kAbort;         ///< misuse:abort|report: a bad free ends the process, or is reported and ignored.
  std::string record{};                   ///< record:FILE writes the event trace of the whole run there.
  std::string plan_file{};                ///< plan:FILE, what `cistern plan` wrote, for strategy:plan

  // Set by adapters, not by users.
  std::shared_ptr<const Plan> plan{};     ///< What plan_file holds: core reads no files.
  std::size_t least_block_bytes = 512;    ///< Block sizes and addresses are multiples; a power of two.
  std::size_t small_block_bytes = kMiB;   ///< Blocks below live in ranges of their own.

  friend bool operator==(const Options&, const Options&) = default;
};

/// Where a configuration is wrong: which key, at which character (from 0), and one sentence with the nearest valid key.
struct ConfigError {
  std::string key;
  std::size_t position = 0;
  std::string message;
};

/// Applies `text` on top of `base`. An unknown key, a key twice, a bad value or a contradiction is an error.
Result<Options, ConfigError> parse_config(std::string_view text, const Options& base = {});

/// Reads a strategy's name; nothing if there is none of that name.
std::optional<Strategy> strategy_from_name(std::string_view name) noexcept;
const char* strategy_name(Strategy strategy) noexcept;

/// Among `candidates`, the one with the least edit distance to `word`.
std::string_view nearest_name(std::string_view word, std::initializer_list<std::string_view> candidates);

}  // namespace cistern
