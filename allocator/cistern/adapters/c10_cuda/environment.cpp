#include "cistern/adapters/c10_cuda/environment.hpp"

#include <cstdlib>
#include <string>

#include "cistern/adapters/environment.hpp"

namespace cistern {
namespace {

/// The value of a key in torch's grammar, key:value,key:[a:b]; empty if it is not there.
std::string value_of(const std::string& text, const std::string& key) {
  std::string plain;
  for (const char c : text) {
    if (c != ' ') plain += c;
  }
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= plain.size(); ++at) {
    if (at < plain.size() && plain[at] == '[') ++depth;
    if (at < plain.size() && plain[at] == ']') --depth;
    if (at < plain.size() && (plain[at] != ',' || depth > 0)) continue;
    const std::string setting = plain.substr(begin, at - begin);
    if (setting.compare(0, key.size() + 1, key + ":") == 0) return setting.substr(key.size() + 1);
    begin = at + 1;
  }
  return {};
}

struct Meaningless {
  const char* key;
  const char* why;
};

constexpr Meaningless kMeaningless[] = {
    {"max_split_size_mb", "cistern splits and coalesces blocks of every size; drop it"},
    {"roundup_power2_divisions", "cistern rounds to 512 bytes, which wastes less; drop it"},
    {"garbage_collection_threshold", "say trim:above_high_water,high_water:SIZE in CISTERN_CONF instead"},
    {"max_non_split_rounding_mb", "cistern splits blocks of every size; drop it"},
    {"large_segment_size_mb", "cistern grows by what is asked; drop it"},
    {"graph_capture_record_stream_reuse", "blocks that other streams use stay until a capture ends; drop it"},
    {"backend", "cistern is the backend; do not install it where another one is wanted"},
    {"release_lock_on_cudamalloc", "frees never wait for a growing device; drop it"},
    {"throw_on_cudamalloc_oom", "cistern asks the driver before it refuses; say limit:SIZE in CISTERN_CONF instead"},
    {"expandable_segments_reserve", "cistern reserves address space in steps; drop it"},
    {"expandable_segments_reserve_by_class", "cistern reserves address space in steps; drop it"},
};

void apply_torch(Options& options, const std::function<void(const std::string&)>& warn) {
  const char* name = "PYTORCH_CUDA_ALLOC_CONF";
  const char* text = std::getenv(name);
  if (text == nullptr) text = std::getenv(name = "PYTORCH_ALLOC_CONF");
  if (text == nullptr) return;
  // torch itself has refused to start with what it cannot read, so here is no bad value to be reported.
  const std::string fraction = value_of(text, "per_process_memory_fraction");
  if (!fraction.empty() && !options.limit) options.limit = Amount{0, std::strtod(fraction.c_str(), nullptr)};
  const std::string expandable = value_of(text, "expandable_segments");
  if (!expandable.empty() && options.source == SourceChoice::kAuto) {
    options.source = expandable == "True" ? SourceChoice::kVmm : SourceChoice::kMalloc;
  }
  for (const Meaningless& setting : kMeaningless) {
    if (value_of(text, setting.key).empty()) continue;
    warn("cistern: " + std::string(setting.key) + " of " + name + " has no effect: " + setting.why);
  }
}

void apply_tensorflow(Options& options, const std::function<void(const std::string&)>& warn) {
  const char* text = std::getenv("TF_FORCE_GPU_ALLOW_GROWTH");
  if (text == nullptr) return;
  const std::string value = text;
  if (value == "true") {
    options.strategy = Strategy::kGrowth;
  } else if (value == "false") {
    options.strategy = Strategy::kPreallocate;
  } else {
    warn("cistern: TF_FORCE_GPU_ALLOW_GROWTH=" + value + " has no effect: it is 'true' or 'false'");
  }
}

}  // namespace

Options with_environment(Options options, const std::function<void(const std::string&)>& warn) {
  apply_torch(options, warn);
  apply_tensorflow(options, warn);
  return with_cistern_conf(options);
}

}  // namespace cistern
