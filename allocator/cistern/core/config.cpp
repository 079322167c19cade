#include "cistern/core/config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace cistern {
namespace {

/// Sets one field from its text; returns what is wrong, or nothing.
using Setter = std::string (*)(std::string_view text, Options& options);

std::string choices(std::string_view text, std::initializer_list<std::string_view> names) {
  std::string message = "'" + std::string(text) + "' is none of";
  for (const std::string_view name : names) message += " " + std::string(name);
  return message + "; did you mean " + std::string(nearest_name(text, names)) + "?";
}

std::string set_strategy(std::string_view text, Options& options) {
  const auto strategy = strategy_from_name(text);
  if (!strategy) return choices(text, {"growth", "geometric", "preallocate", "plan"});
  options.strategy = *strategy;
  return {};
}

std::string set_limit(std::string_view text, Options& options) {
  const auto limit = parse_limit(text);
  if (!limit) return limit.error();
  options.limit = *limit;
  return {};
}

std::string set_preallocate(std::string_view text, Options& options) {
  const auto amount = parse_limit(text);
  if (!amount) return amount.error();
  options.preallocate = *amount;
  return {};
}

std::string set_size(std::string_view text, std::size_t& field) {
  const auto size = parse_size(text);
  if (!size) return size.error();
  field = *size;
  return {};
}

std::string set_headroom(std::string_view text, Options& options) { return set_size(text, options.headroom_bytes); }
std::string set_high_water(std::string_view text, Options& options) {
  return set_size(text, options.high_water_bytes);
}

std::string set_remap_slack(std::string_view text, Options& options) {
  double share = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc{} || end != text.data() + text.size() || !(share >= 0.0 && share <= 1.0)) {
    return "'" + std::string(text) + "' is not a share between 0 and 1";
  }
  options.remap_slack = share;
  return {};
}

std::string set_trim(std::string_view text, Options& options) {
  if (text == "keep_all") options.trim = TrimMode::kKeepAll;
  else if (text == "above_high_water") options.trim = TrimMode::kAboveHighWater;
  else if (text == "idle") options.trim = TrimMode::kIdle;
  else return choices(text, {"keep_all", "above_high_water", "idle"});
  return {};
}

std::string set_source(std::string_view text, Options& options) {
  if (text == "auto") options.source = SourceChoice::kAuto;
  else if (text == "vmm") options.source = SourceChoice::kVmm;
  else if (text == "malloc") options.source = SourceChoice::kMalloc;
  else return choices(text, {"auto", "vmm", "malloc"});
  return {};
}

std::string set_misuse(std::string_view text, Options& options) {
  if (text == "abort") options.misuse = Misuse::kAbort;
  else if (text == "report") options.misuse = Misuse::kReport;
  else return choices(text, {"abort", "report"});
  return {};
}

std::string set_record(std::string_view text, Options& options) {
  if (text.empty()) return "a file name is missing";
  options.record = text;
  return {};
}

std::string set_plan(std::string_view text, Options& options) {
  if (text.empty()) return "a file name is missing";
  options.plan_file = text;
  return {};
}

struct Key {
  std::string_view name;
  Setter set;
};

constexpr std::array<Key, 11> kKeys{{
    {"strategy", set_strategy},
    {"limit", set_limit},
    {"preallocate", set_preallocate},
    {"headroom", set_headroom},
    {"remap_slack", set_remap_slack},
    {"trim", set_trim},
    {"high_water", set_high_water},
    {"source", set_source},
    {"misuse", set_misuse},
    {"record", set_record},
    {"plan", set_plan},
}};

ConfigError error_at(std::string_view key, std::size_t position, const std::string& what) {
  return {std::string(key), position,
          "key '" + std::string(key) + "' at character " + std::to_string(position) + ": " + what};
}

std::string unknown_key(std::string_view key) {
  return "there is no such key; the nearest is " +
         std::string(nearest_name(key, {"strategy", "limit", "preallocate", "headroom", "remap_slack", "trim",
                                        "high_water", "source", "misuse", "record", "plan"}));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

Result<Options, ConfigError> parse_config(std::string_view text, const Options& base) {
  Options options = base;
  std::vector<std::string_view> seen;
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t end = std::min(text.find(',', position), text.size());
    const std::string_view item = text.substr(position, end - position);
    const std::size_t colon = item.find(':');
    const std::string_view key = item.substr(0, colon);
    const auto known = std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& k) { return k.name == key; });
    if (known == kKeys.end()) return error_at(key, position, unknown_key(key));
    if (colon == std::string_view::npos) return error_at(key, position, "a value is missing; write key:value");
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return error_at(key, position, "is given twice");
    seen.push_back(key);
    const std::size_t value_at = position + colon + 1;
    if (const std::string wrong = known->set(item.substr(colon + 1), options); !wrong.empty()) {
      return error_at(key, value_at, wrong);
    }
    position = end + 1;
    if (end + 1 == text.size()) return error_at("", end + 1, "a key is missing after the last comma");
  }
  if (options.trim == TrimMode::kAboveHighWater && options.high_water_bytes == 0) {
    return error_at("trim", 0, "above_high_water needs high_water:SIZE");
  }
  if (options.strategy == Strategy::kPlan && options.plan_file.empty() && options.plan == nullptr) {
    return error_at("strategy", 0, "plan needs plan:FILE, which `cistern plan` writes");
  }
  return options;
}

std::optional<Strategy> strategy_from_name(std::string_view name) noexcept {
  for (const Strategy strategy : {Strategy::kGrowth, Strategy::kGeometric, Strategy::kPreallocate, Strategy::kPlan}) {
    if (name == strategy_name(strategy)) return strategy;
  }
  return std::nullopt;
}

const char* strategy_name(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::kGrowth: return "growth";
    case Strategy::kGeometric: return "geometric";
    case Strategy::kPreallocate: return "preallocate";
    case Strategy::kPlan: return "plan";
  }
  return "unknown";
}

std::string_view nearest_name(std::string_view word, std::initializer_list<std::string_view> candidates) {
  return *std::min_element(candidates.begin(), candidates.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
}

}  // namespace cistern
