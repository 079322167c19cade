// The contract of memory sources, tried on those of CUDA over the fake runtime.
#include <cstdlib>
#include <memory>

#include "cistern/sources/cuda/foreign_source.hpp"
#include "cistern/sources/cuda/malloc_source.hpp"
#include "cistern/sources/cuda/vmm_source.hpp"
#include "contract/memory_source_contract.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

struct Vmm {
  static std::unique_ptr<MemorySource> make() {
    fakecuda_reset(2, 256 * kMiB);
    return std::make_unique<VmmSource>(support::fake_api(), 1);
  }
};

struct Malloc {
  static std::unique_ptr<MemorySource> make() {
    fakecuda_reset(2, 256 * kMiB);
    return make_malloc_source(support::fake_api(), 1);
  }
};

struct Foreign {
  static std::unique_ptr<MemorySource> make() {
    fakecuda_reset(2, 256 * kMiB);
    ForeignAllocator allocator;
    allocator.allocate = [](std::size_t bytes) {
      void* address = nullptr;
      cudaMalloc(&address, bytes);
      return address;
    };
    allocator.release = [](void* address) { cudaFree(address); };
    return make_foreign_source(std::move(allocator), {.capacity_bytes = 256 * kMiB});
  }
};

using Kinds = ::testing::Types<Vmm, Malloc, Foreign>;
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, MemorySourceContract, Kinds);

}  // namespace
}  // namespace cistern
