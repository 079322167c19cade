// cistern-bench's driver of cistern's core over a simulated device. The variant is STRATEGY,SOURCE,GRANULE:
// growth,vmm,2097152. Its device does nothing until it is waited for: no block is reused by another stream
// before.
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "cistern/core/caching_allocator.hpp"
#include "cistern/observe/make_plan.hpp"
#include "cistern/observe/replay_streams.hpp"
#include "cistern/sources/simulated_source.hpp"
#include "driver.hpp"

namespace cistern::bench {
namespace {

class Cistern {
 public:
  explicit Cistern(const std::string& variant) {
    std::istringstream parts(variant);
    std::string strategy, granule;
    std::getline(parts, strategy, ',');
    std::getline(parts, source_options_.name, ',');
    std::getline(parts, granule);
    const std::optional<Strategy> known = strategy_from_name(strategy);
    if (!known || granule.empty()) throw std::invalid_argument("unknown variant " + variant);
    options_.strategy = *known;
    source_options_.granule_bytes = std::stoull(granule);
    source_options_.whole_only = source_options_.shared_segments = source_options_.name == "malloc";
  }

  void expect(const ReplayProgram& program) {
    if (options_.strategy != Strategy::kPlan) return;
    PlanOptions plan;
    plan.unit_bytes = options_.least_block_bytes;
    plan.granule_bytes = source_options_.granule_bytes;
    options_.plan = std::make_shared<const Plan>(make_plan(program, plan).plan);
  }
  void start(std::uint64_t capacity_bytes, std::uint64_t wish_bytes) {
    options_.preallocate = Amount{round_down(wish_bytes, source_options_.granule_bytes)};
    source_options_.capacity_bytes = round_down(capacity_bytes, source_options_.granule_bytes);
    if (source_options_.name == "contiguous") {
      source_options_.range_step_bytes = source_options_.capacity_bytes;
      options_.remap_slack = 1.0;
    }
    source_.emplace(source_options_);
    streams_.emplace(ReplayStreams::kForever);
    allocator_.emplace(options_, *source_, &*streams_);
  }
  void stop() {
    pools_.clear();
    allocator_.reset();
    streams_.reset();
    source_.reset();
  }

  void* allocate(std::uint64_t bytes, std::uint64_t stream, unsigned pool) {
    const PoolId in = pool == 0 ? PoolId{} : pool_of(pool);
    if (const Address hit = allocator_->allocate_at_once(bytes, StreamId{stream}, in)) {
      return reinterpret_cast<void*>(hit);
    }
    Request request;
    request.bytes = bytes;
    request.stream = StreamId{stream};
    request.pool = in;
    const auto allocation = allocator_->allocate(request);
    return allocation ? reinterpret_cast<void*>(allocation->address) : nullptr;
  }
  void free(void* data, std::uint64_t, std::uint64_t) { allocator_->free(reinterpret_cast<Address>(data)); }
  void use(void* data, std::uint64_t stream) {
    allocator_->record_stream(reinterpret_cast<Address>(data), StreamId{stream});
  }
  void sync(std::uint64_t stream) { streams_->sync(StreamId{stream}); }
  void step() { streams_->advance(); }

  Usage usage() const {
    const bool maps = !source_options_.whole_only;
    Usage usage{source_->held_bytes(), source_->peak_held_bytes(), 0,
                maps ? source_->cost(SourceVerb::kCommit).bytes : 0};
    for (const SourceVerb verb :
         {SourceVerb::kReserve, SourceVerb::kCommit, SourceVerb::kDecommit, SourceVerb::kUnreserve}) {
      usage.source_calls += source_->cost(verb).calls;
    }
    return usage;
  }

 private:
  PoolId pool_of(unsigned number) {
    while (pools_.size() < number) pools_.push_back(allocator_->create_pool());
    return pools_[number - 1];
  }

  Options options_;
  SimulatedOptions source_options_;
  std::optional<ReplayStreams> streams_;
  std::optional<SimulatedSource> source_;
  std::optional<CachingAllocator> allocator_;
  std::vector<PoolId> pools_;
};

}  // namespace
}  // namespace cistern::bench

int main(int argc, char** argv) {
  return cistern::bench::run_driver<cistern::bench::Cistern>(argc, argv);
}
