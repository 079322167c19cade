// Workloads without a model behind them: allocations that come and go.
#include <algorithm>
#include <utility>
#include <vector>

#include "workloads/generators.hpp"
#include "workloads/recorder.hpp"

namespace cistern::workloads {

ReplayProgram random_allocations(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  const std::uint64_t most_bytes = settings.at("most_mib") * kMiB;
  const std::uint64_t cap_bytes = std::max(settings.at("cap_mib") * kMiB, most_bytes);
  std::vector<Recorder::Block> live;
  std::uint64_t live_bytes = 0;
  const auto free_one = [&] {
    std::swap(live[recorder.between(0, live.size() - 1)], live.back());
    live_bytes -= live.back().bytes;
    recorder.free(live.back());
    live.pop_back();
  };
  for (std::uint64_t count = 0; count < settings.at("allocations");) {
    if (!live.empty() && !recorder.percent(73)) {
      free_one();
      continue;
    }
    const std::uint64_t bytes = recorder.between(1, most_bytes);
    while (live_bytes + bytes > cap_bytes) free_one();
    live.push_back(recorder.allocate(bytes));
    live_bytes += bytes;
    ++count;
  }
  while (!live.empty()) free_one();
  return recorder.take();
}

ReplayProgram large_tensors(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  const std::uint64_t least = settings.at("least_mib");
  const std::uint64_t most = std::max(settings.at("most_mib"), least);
  std::vector<Recorder::Block> live(settings.at("tensors"));
  for (Recorder::Block& block : live) block = recorder.allocate(recorder.between(least, most) * kMiB);
  for (std::uint64_t step = 0; step < settings.at("steps"); ++step) {
    Recorder::Block& block = live[recorder.between(0, live.size() - 1)];
    recorder.free(block);
    recorder.sync(0);  // the step's result is read
    block = recorder.allocate(recorder.between(least, most) * kMiB);
  }
  recorder.free_all(live);
  return recorder.take();
}

}  // namespace cistern::workloads
