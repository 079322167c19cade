#include "workloads/workloads.hpp"

#include <algorithm>
#include <stdexcept>

#include "workloads/generators.hpp"

namespace cistern::workloads {

const std::vector<Workload>& all_workloads() {
  static const std::vector<Workload> workloads{
      {"random_allocations",
       "RMM's own benchmark: sizes without any pattern, 73 % of the operations allocate, so that free lists "
       "grow long",
       {{"allocations", 10000, 1, 10'000'000, "blocks in all"},
        {"most_mib", 4, 1, 4096, "sizes are 1 B to this"},
        {"cap_mib", 16000, 1, 1'000'000, "most that is live at once"}},
       random_allocations},
      {"large_tensors",
       "a few multi-GiB tensors of changing size, as long-context inference holds them: no hole fits the "
       "next one",
       {{"tensors", 5, 1, 64, "live at once"},
        {"steps", 1000, 1, 1'000'000, "tensors replaced"},
        {"least_mib", 4096, 1, 100'000, "sizes are this"},
        {"most_mib", 8192, 1, 100'000, "to this"}},
       large_tensors},
      {"serving_streams",
       "requests go round robin over streams and results are copied out on another (record_stream): an "
       "allocator that "
       "keeps memory by stream holds it once a stream",
       {{"streams", 32, 1, 1024, "that requests go to"},
        {"requests", 256, 1, 1'000'000, "served in all"},
        {"in_flight", 2, 1, 1024, "requests under way at once"},
        {"least_mib", 1024, 1, 100'000, "workspaces are this"},
        {"most_mib", 2048, 1, 100'000, "to this"}},
       serving_streams},
      {"growing_kv_cache",
       "each request's caches grow by copying into larger ones while requests come and go: old sizes never "
       "return",
       {{"requests", 200, 1, 100'000, "served in all"},
        {"at_once", 24, 1, 1024, "requests under way at once"},
        {"layers", 16, 1, 1024, "caches a request"},
        {"token_bytes", 16384, 1, 1'000'000, "of one layer's cache for one token"}},
       growing_kv_cache},
      {"graph_pools",
       "CUDA graphs of many batch sizes captured into private pools: what a capture freed stays with its "
       "pool",
       {{"graphs", 8, 1, 20, "captured, the n-th with batch 2^(n-1)"},
        {"shared_pool", 1, 0, 1, "1: all graphs share a pool, as servers do; 0: one each"},
        {"unit_kib", 256, 1, 100'000, "of one sample's activations"},
        {"steps", 500, 0, 1'000'000, "of eager work afterwards"}},
       graph_pools},
      {"varying_batches",
       "training with batch and sequence lengths that change each step, as bucketed text does: no step "
       "repeats another",
       {{"steps", 60, 1, 100'000, "of training"},
        {"layers", 6, 1, 256, "of the transformer"},
        {"width", 512, 8, 65536, "of the transformer"},
        {"most_batch", 16, 1, 65536, "batches are 1 to this"},
        {"most_length", 512, 8, 65536, "sequences are 8 to this"}},
       varying_batches},
      {"gradient_accumulation",
       "several forward and backward passes a step and evaluation in between: three phases with shapes of "
       "their own",
       {{"epochs", 4, 1, 10'000, "each ends in an evaluation"},
        {"steps", 5, 1, 100'000, "an epoch"},
        {"parts", 4, 1, 1024, "passes a step"},
        {"batch", 8, 1, 65536, "of one pass; evaluation takes four times that"},
        {"length", 256, 8, 65536, "of the sequences"},
        {"layers", 6, 1, 256, "of the transformer"},
        {"width", 512, 8, 65536, "of the transformer"}},
       gradient_accumulation},
      {"pinned_loader",
       "a data loader's pinned buffers: filled ahead by workers, used by the copy stream after the program "
       "let go",
       {{"batches", 2000, 1, 10'000'000, "loaded in all"},
        {"workers", 4, 1, 256, "each with buffers of its own"},
        {"prefetch", 2, 1, 64, "batches ahead, a worker"},
        {"batch", 64, 1, 65536, "pictures of 128 to 256 pixels a side"}},
       pinned_loader},
  };
  return workloads;
}

ReplayProgram generate(std::string_view name, std::uint64_t seed, const Settings& changed) {
  const auto& all = all_workloads();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Workload& each) { return each.name == name; });
  if (found == all.end()) throw std::invalid_argument("no workload is named \"" + std::string(name) + "\"");
  Settings settings;
  for (const Parameter& parameter : found->parameters) settings.emplace(parameter.name, parameter.value);
  for (const auto& [key, value] : changed) {
    const auto parameter =
        std::find_if(found->parameters.begin(), found->parameters.end(),
                     [wanted = std::string_view(key)](const Parameter& each) { return each.name == wanted; });
    if (parameter == found->parameters.end()) {
      throw std::invalid_argument(std::string(name) + " has no parameter \"" + key + "\"");
    }
    if (value < parameter->least || value > parameter->most) {
      throw std::invalid_argument(key + ": " + std::to_string(value) + " is not from " +
                                  std::to_string(parameter->least) + " to " +
                                  std::to_string(parameter->most));
    }
    settings[key] = value;
  }
  ReplayProgram program = found->make(settings, seed);
  program.name = name;
  return program;
}

}  // namespace cistern::workloads
