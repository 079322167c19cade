#include "apps/common/memory_options.hpp"

#include <charconv>
#include <cstdlib>

#include "apps/common/cli.hpp"

namespace cistern::apps {
namespace {

// On the CPU all of memory is no sensible preallocation, so programs bring a size of their own there.
constexpr Amount kDefaultPreallocation{512 * kMiB, 0.0};

std::string check_device(const std::string& device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return {};
  int index = 0;
  const char* end = device.data() + device.size();
  if (device.starts_with("cuda:")) {
    const auto [stop, error] = std::from_chars(device.data() + 5, end, index);
    if (error == std::errc{} && stop == end && index >= 0) return {};
  }
  return "'" + device + "' is not auto, cpu, cuda or cuda:N";
}

std::string text_of(const Amount& amount) {
  if (amount.share > 0.0) return std::to_string(amount.share * 100.0) + "%";
  return std::to_string(amount.bytes) + "B";
}

}  // namespace

ComputedOn computed_on(const ChosenDevice& device) {
  return device.cuda_index ? ComputedOn::kCuda : ComputedOn::kCpu;
}

CLI::IsMember strategy_names() {
  return CLI::IsMember({"growth", "geometric", "preallocate", "plan", kSystem});
}

void add_memory_options(CLI::App& app, MemoryOptions& options) {
  app.add_option("--device", options.device, "auto, cpu, cuda or cuda:N")
      ->check(CLI::Validator(check_device, "", "device"))
      ->capture_default_str();
  app.add_option("--strategy", options.strategy,
                 "How memory grows; system is torch's own allocator, untouched (growth)")
      ->check(strategy_names());
  add_limit(app, "--limit", options.limit, "Most memory for tensors on the device computed on: 512MiB, 80%");
  add_amount(app, "--preallocate", options.preallocate,
             "What strategy preallocate takes at once (on the CPU 512MiB, on CUDA what is free)");
  app.add_option("--plan", options.plan,
                 "What cistern plan made of a recorded run, for --strategy plan: each block where it was planned");
  app.add_option("--record", options.record,
                 "Write the trace of all allocations to this file; on CUDA the device's, to FILE.cuda:N");
}

void check_memory_options(const MemoryOptions& options) {
  const bool says_how = options.limit || options.preallocate || !options.record.empty() || !options.plan.empty();
  if (options.strategy == kSystem && says_how) {
    throw UsageError(
        "--strategy system leaves torch's allocator alone; it knows no --limit, --preallocate, --plan or --record");
  }
  allocator_options(options, ComputedOn::kCpu);
}

std::optional<Options> allocator_options(const MemoryOptions& options, ComputedOn device) {
  const char* environment = std::getenv("CISTERN_CONF");
  const auto configured = parse_config(environment ? environment : "");
  if (!configured) throw UsageError("CISTERN_CONF: " + configured.error().message);
  Options result = *configured;
  if (options.strategy == kSystem) return std::nullopt;
  if (options.strategy) result.strategy = *strategy_from_name(*options.strategy);
  if (options.limit) result.limit = options.limit;
  if (!options.record.empty()) result.record = options.record;
  if (options.preallocate) result.preallocate = *options.preallocate;
  if (!options.plan.empty()) result.plan_file = options.plan;
  if (result.strategy == Strategy::kPlan && result.plan_file.empty()) {
    throw UsageError("--strategy plan needs --plan FILE, which cistern plan makes of what --record wrote");
  }
  if (result.strategy != Strategy::kPlan && !options.plan.empty()) {
    throw UsageError("--plan is for --strategy plan");
  }
  if (device == ComputedOn::kCpu && result.strategy == Strategy::kPreallocate &&
      result.preallocate == Amount{} && !result.limit) {
    result.preallocate = kDefaultPreallocation;
  }
  return result;
}

std::vector<std::string> arguments_for(const MemoryOptions& options) {
  std::vector<std::string> arguments{"--device", options.device};
  const auto add = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  if (options.strategy) add("--strategy", *options.strategy);
  if (options.limit && options.strategy != kSystem) add("--limit", text_of(*options.limit));
  if (options.preallocate && options.strategy == "preallocate")
    add("--preallocate", text_of(*options.preallocate));
  if (!options.plan.empty() && options.strategy == "plan") add("--plan", options.plan);
  return arguments;
}

}  // namespace cistern::apps
