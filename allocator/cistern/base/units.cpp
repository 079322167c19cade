#include "cistern/base/units.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace cistern {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr Unit kUnits[] = {
    {"", 1.0},        {"B", 1.0},        {"KiB", 0x1p10},  {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    {"kiB", 0x1p10},  {"miB", 0x1p20},   {"giB", 0x1p30},  {"KB", 1e3},     {"kB", 1e3},     {"MB", 1e6},
    {"GB", 1e9},      {"TB", 1e12},
};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

}  // namespace

std::size_t Amount::resolve(std::size_t capacity_bytes) const noexcept {
  if (share > 0.0) return static_cast<std::size_t>(share * static_cast<double>(capacity_bytes));
  return bytes;
}

Result<Amount, std::string> parse_amount(std::string_view text) {
  const std::string what = quoted(text);
  if (text.empty()) return std::string("a size is missing; write it like 512MiB, 1.5GiB or 80%");
  if (text.front() == '-') return what + " is negative; a size is at least 0";
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number)) {
    return what + " is not a size; write it like 512MiB, 1.5GiB or 80%";
  }
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit == "%") {
    if (!(number > 0.0 && number <= 100.0)) return what + " is not a share above 0% and up to 100%";
    return Amount{0, number / 100.0};
  }
  for (const Unit& candidate : kUnits) {
    if (candidate.name != unit) continue;
    const double bytes = number * candidate.bytes;
    if (bytes >= 0x1p63) return what + " is too large; a size is below 8 EiB";
    // Whole numbers of bytes stay exact beyond 2^53.
    std::size_t exact = 0;
    const auto [exact_end, exact_error] = std::from_chars(text.data(), end, exact);
    if (exact_error == std::errc{} && exact_end == end) {
      return Amount{exact * static_cast<std::size_t>(candidate.bytes), 0.0};
    }
    return Amount{static_cast<std::size_t>(bytes), 0.0};
  }
  return what + " has the unknown unit " + quoted(unit) + "; units are KiB MiB GiB TiB, KB MB GB TB and %";
}

Result<Amount, std::string> parse_limit(std::string_view text) {
  auto amount = parse_amount(text);
  const bool bare = !text.empty() && text.back() >= '0' && text.back() <= '9';
  if (amount && bare && amount->bytes < kMiB) {
    return quoted(text) + " bytes is no useful limit; did you mean " + std::string(text) + "MiB?";
  }
  return amount;
}

Result<std::size_t, std::string> parse_size(std::string_view text) {
  const auto amount = parse_amount(text);
  if (!amount) return amount.error();
  if (amount->share > 0.0) return quoted(text) + " is a share; a size in bytes is wanted here, like 512MiB";
  return amount->bytes;
}

std::string format_bytes(std::size_t bytes) {
  constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double number = static_cast<double>(bytes);
  while (number >= 1024.0 && unit + 1 < std::size(kNames)) {
    number /= 1024.0;
    ++unit;
  }
  char text[32];
  const bool whole = number == std::floor(number);
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.2f %s", number, kNames[unit]);
  return text;
}

}  // namespace cistern
