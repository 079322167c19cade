// Bytes: constants, rounding, and the one grammar for sizes that every flag and every configuration key uses.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cistern/base/result.hpp"

namespace cistern {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

/// Requires a power of two, and that the rounded value is representable.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + (unit - 1)) & ~(unit - 1);
}
constexpr std::size_t round_down(std::size_t bytes, std::size_t unit) noexcept { return bytes & ~(unit - 1); }

/// An amount of memory as a person writes it: bytes, or a share of a device's capacity.
struct Amount {
  std::size_t bytes = 0;
  double share = 0.0;  ///< In (0, 1] when given in percent; bytes is then 0.

  /// The amount in bytes on a device of that capacity.
  std::size_t resolve(std::size_t capacity_bytes) const noexcept;
  friend bool operator==(const Amount&, const Amount&) = default;
};

/// Reads "512MiB", "1.5GiB", "80%", "100MB" (decimal), "4096" or "4096B"; units are case-sensitive but for a lower-case
/// k, m, g before "iB". Fails with one sentence that says what is wrong: empty, not a number, unknown unit, negative,
/// more than 2^63-1 bytes, share outside (0, 100].
Result<Amount, std::string> parse_amount(std::string_view text);

/// As parse_amount, for a limit: also refuses a bare number below 1 MiB ("did you mean 512MiB?").
Result<Amount, std::string> parse_limit(std::string_view text);

/// As parse_amount, but a share is refused.
Result<std::size_t, std::string> parse_size(std::string_view text);

/// "512 MiB", "1.50 GiB", "3 B": at most two decimals, binary units.
std::string format_bytes(std::size_t bytes);

}  // namespace cistern
