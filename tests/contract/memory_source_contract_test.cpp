// The contract of memory sources, tried on those that need no GPU.
#include "contract/memory_source_contract.hpp"

#include <memory>

#include "cistern/sources/host_source.hpp"
#include "cistern/sources/simulated_source.hpp"

namespace cistern {
namespace {

struct SimulatedVmm {
  static std::unique_ptr<MemorySource> make() {
    return std::make_unique<SimulatedSource>(
        SimulatedOptions{.granule_bytes = 2 * kMiB, .capacity_bytes = 256 * kMiB});
  }
};

struct SimulatedMalloc {
  static std::unique_ptr<MemorySource> make() {
    return std::make_unique<SimulatedSource>(
        SimulatedOptions{.granule_bytes = 64 * kKiB, .capacity_bytes = 256 * kMiB, .whole_only = true});
  }
};

struct Host {
  static std::unique_ptr<MemorySource> make() {
    return std::make_unique<HostSource>(
        HostOptions{.granule_bytes = 64 * kKiB, .capacity_bytes = 256 * kMiB});
  }
};

using Kinds = ::testing::Types<SimulatedVmm, SimulatedMalloc, Host>;
INSTANTIATE_TYPED_TEST_SUITE_P(Sources, MemorySourceContract, Kinds);

}  // namespace
}  // namespace cistern
