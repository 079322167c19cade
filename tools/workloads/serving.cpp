// Workloads of inference servers.
#include <deque>
#include <vector>

#include "workloads/generators.hpp"
#include "workloads/recorder.hpp"

namespace cistern::workloads {

using Block = Recorder::Block;

ReplayProgram serving_streams(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  const std::uint64_t streams = settings.at("streams");
  const std::uint64_t copy_stream = streams + 1;
  const std::uint64_t least = settings.at("least_mib");
  const std::uint64_t most = std::max(settings.at("most_mib"), least);
  for (std::uint64_t request = 0; request < settings.at("requests"); ++request) {
    const std::uint64_t stream = 1 + request % streams;
    // As many requests are under way as the server admits: it waits for the oldest before it starts another.
    if (request >= settings.at("in_flight")) recorder.sync(1 + (request - settings.at("in_flight")) % streams);
    recorder.sync(copy_stream);
    const Block input = recorder.allocate(recorder.between(1, 64) * kMiB, stream);
    const Block workspace = recorder.allocate(recorder.between(least, most) * kMiB, stream);
    for (int layer = 0; layer < 8; ++layer) recorder.touch(recorder.between(1, 32) * kMiB, stream);
    const Block output = recorder.allocate(recorder.between(1, 8) * kMiB, stream);
    recorder.use(output, copy_stream);  // a copy to the host, on a stream of its own
    recorder.free(input);
    recorder.free(workspace);
    recorder.free(output);
  }
  return recorder.take();
}

ReplayProgram growing_kv_cache(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  const std::uint64_t layers = settings.at("layers");
  const std::uint64_t token_bytes = settings.at("token_bytes");
  constexpr std::uint64_t kChunk = 64;  // tokens by which a cache grows
  struct Request {
    std::uint64_t tokens;
    std::uint64_t until;
    std::vector<Block> cache;
  };
  const auto cache_bytes = [&](std::uint64_t tokens) { return round_up(tokens + 1, kChunk) * token_bytes; };
  std::deque<Request> running;
  std::uint64_t started = 0;
  while (started < settings.at("requests") || !running.empty()) {
    if (started < settings.at("requests") && running.size() < settings.at("at_once") && recorder.percent(25)) {
      Request request{recorder.between(16, 1024), 0, {}};
      request.until = request.tokens + recorder.between(32, 512);
      for (std::uint64_t layer = 0; layer < layers; ++layer) {
        recorder.touch(request.tokens * token_bytes * 4);  // the prompt, through one layer
        request.cache.push_back(recorder.allocate(cache_bytes(request.tokens)));
      }
      running.push_back(std::move(request));
      ++started;
    }
    recorder.touch((running.size() + 1) * token_bytes * 4);
    recorder.sync(0);  // the tokens are read
    for (Request& request : running) {
      ++request.tokens;
      if (request.tokens % kChunk != 0) continue;
      for (Block& old : request.cache) {  // the new cache is there before the old one is copied and gone
        const Block grown = recorder.allocate(cache_bytes(request.tokens));
        recorder.free(old);
        old = grown;
      }
    }
    std::erase_if(running, [&](const Request& request) {
      if (request.tokens < request.until) return false;
      recorder.free_all(request.cache);
      return true;
    });
  }
  return recorder.take();
}

ReplayProgram graph_pools(const Settings& settings, std::uint64_t seed) {
  Recorder recorder(seed);
  const std::uint64_t graphs = settings.at("graphs");
  const std::uint64_t unit = settings.at("unit_kib") * kKiB;
  std::vector<Block> kept;
  for (std::uint64_t weight = 0; weight < 24; ++weight) kept.push_back(recorder.allocate(recorder.between(1, 64) * unit));
  // The largest batch is captured first, as servers do, so that the smaller ones fit into its pool.
  for (std::uint64_t graph = graphs; graph > 0; --graph) {
    const std::uint64_t batch = std::uint64_t{1} << (graph - 1);
    const std::uint64_t pool = settings.at("shared_pool") != 0 ? 1 : graph;
    recorder.touch(batch * unit * 8);  // warm-up, outside of the pool
    Block hidden = recorder.allocate(batch * unit, 0, pool);
    for (int layer = 0; layer < 12; ++layer) {
      const Block wide = recorder.allocate(batch * unit * 4, 0, pool);
      recorder.touch(recorder.between(1, 8) * unit, 0, pool);
      const Block next = recorder.allocate(batch * unit, 0, pool);
      recorder.free(wide);
      recorder.free(hidden);
      hidden = next;
    }
    kept.push_back(hidden);  // the graph's output lives as long as the graph
  }
  // Between replays of the graphs the program works eagerly.
  for (std::uint64_t step = 0; step < settings.at("steps"); ++step) {
    const Block logits = recorder.allocate(recorder.between(1, std::uint64_t{1} << graphs) * unit);
    recorder.touch(recorder.between(1, 16) * unit);
    recorder.free(logits);
  }
  recorder.free_all(kept);
  return recorder.take();
}

}  // namespace cistern::workloads
