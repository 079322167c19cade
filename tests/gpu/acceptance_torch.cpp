// What torch does with an allocator beyond allocating: CUDA graphs, memory pools, cuDNN's benchmark mode,
// NCCL.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <dlfcn.h>

#include <memory>
#include <vector>

#include "gpu/acceptance.hpp"

namespace cistern::gpu {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;

at::TensorOptions on_gpu() {
  return at::device(at::kCUDA).dtype(at::kFloat);
}

bool all_equal(const at::Tensor& tensor, double value) {
  return is_fake() || tensor.eq(value).all().item<bool>();
}

/// Takes and frees memory of many sizes, and leaves a value in it that nobody else writes.
void write_into_free_memory() {
  std::vector<at::Tensor> noise;
  for (std::int64_t elements = 1 << 10; elements <= 1 << 22; elements *= 2) {
    for (int i = 0; i < 4; ++i) noise.push_back(at::full({elements}, -7.0, on_gpu()));
  }
}

/// Three temporaries, and 3 (2 x + 1).
at::Tensor compute(const at::Tensor& x) {
  return (x * 2 + 1).relu() * 3;
}

std::size_t reserved_bytes() {
  return device_allocator().stats().reserved.current;
}

const c10::CachingDeviceAllocator::SegmentInfo* segment_of(const cca::SnapshotInfo& snapshot,
                                                           const at::Tensor& tensor) {
  const auto address = reinterpret_cast<std::size_t>(tensor.const_data_ptr());
  for (const auto& segment : snapshot.segments) {
    const auto begin = static_cast<std::size_t>(segment.address);
    if (address >= begin && address < begin + segment.total_size) return &segment;
  }
  return nullptr;
}

}  // namespace

std::string graphs() {
  constexpr std::int64_t kElements = 1 << 20;
  constexpr int kReplays = 50;
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  at::Tensor input = at::zeros({kElements}, on_gpu());
  compute(input);  // Loads the kernels: that may not happen in a capture.
  cca::emptyCache();
  const std::size_t reserved_before = reserved_bytes();

  auto first = std::make_unique<at::cuda::CUDAGraph>();
  first->capture_begin();
  at::Tensor middle = compute(input);
  first->capture_end();
  // Shares the pool, as torch.cuda.make_graphed_callables does.
  auto second = std::make_unique<at::cuda::CUDAGraph>();
  second->capture_begin(first->pool());
  at::Tensor output = compute(middle);
  second->capture_end();
  const std::size_t reserved_by_graphs = reserved_bytes();
  require(reserved_by_graphs > reserved_before, "the capture took no memory");

  for (int round = 1; round <= kReplays; ++round) {
    input.fill_(round);
    write_into_free_memory();
    cca::emptyCache();
    first->replay();
    second->replay();
    write_into_free_memory();
    const double expected = 3 * (2 * (3 * (2.0 * round + 1)) + 1);
    require(all_equal(output, expected),
            "replay " + std::to_string(round) + " computed something else than the code");
  }
  require(segment_of(cca::snapshot(), output)->owner_private_pool_id == first->pool(),
          "the output is in another pool");
  output.reset(), middle.reset();
  // Not only CUDAGraph::reset(): a graph keeps the generator's state until it dies.
  first.reset(), second.reset();
  cca::emptyCache();
  require(reserved_bytes() <= reserved_before, "of the graphs' memory " +
                                                   format_bytes(reserved_bytes() - reserved_before) +
                                                   " stayed after their end");
  device_allocator().audit();
  return std::to_string(kReplays) + " replays of two graphs in one pool, " +
         format_bytes(reserved_by_graphs - reserved_before) + ", given back";
}

std::string memory_pool() {
  constexpr std::int64_t kElements = 4 << 20;
  const at::Tensor outside = at::full({kElements}, 1.0, on_gpu());
  const std::size_t reserved_before = reserved_bytes();
  {
    at::cuda::MemPool pool;
    cca::beginAllocateToPool(0, pool.id(), [](cudaStream_t) { return true; });
    at::Tensor inside = at::full({kElements}, 2.0, on_gpu());
    cca::endAllocateToPool(0, pool.id());
    cca::releasePool(0, pool.id());
    const cca::SnapshotInfo snapshot = cca::snapshot();
    const auto* segment = segment_of(snapshot, inside);
    require(segment != nullptr && segment->owner_private_pool_id == pool.id(),
            "the tensor is not in the pool");
    require(segment_of(snapshot, outside)->owner_private_pool_id != pool.id(),
            "a tensor from outside is in the pool");
    const void* place = inside.const_data_ptr();
    inside.reset();
    const at::Tensor other = at::full({kElements}, 3.0, on_gpu());
    require(other.const_data_ptr() != place, "memory of the pool was given to a request from outside");
    require(pool.use_count() == 1, "the pool has " + std::to_string(pool.use_count()) + " users");
  }
  cca::emptyCache();
  require(reserved_bytes() <= reserved_before, "the pool's memory stayed after its end");
  require(all_equal(outside, 1.0), "a tensor outside was overwritten");
  device_allocator().audit();
  return "a tensor in a pool, others outside, memory given back with the pool";
}

std::string cudnn_benchmark() {
  constexpr std::size_t kLimit = 2 * kGiB;
  at::globalContext().setAllowTF32CuDNN(false);
  const at::Tensor images = at::randn({64, 64, 56, 56}, on_gpu());
  const at::Tensor weights = at::randn({128, 64, 3, 3}, on_gpu());
  const auto convolve = [&] { return at::conv2d(images, weights, {}, 1, 1); };
  const at::Tensor expected = convolve();
  require(static_cast<bool>(device_allocator().set_limit(kLimit)), "the limit was refused");
  at::globalContext().setBenchmarkCuDNN(true);
  const at::Tensor found = convolve();
  const double difference = (found - expected).abs().max().item<double>();
  require(difference < 0.05, "results differ by " + std::to_string(difference));
  require(device_allocator().stats().reserved.peak <= kLimit, "workspaces went over the limit");
  device_allocator().audit();
  return "a convolution under a limit of " + format_bytes(kLimit) + ", largest difference " +
         std::to_string(difference) + ", peak reserved " +
         format_bytes(device_allocator().stats().reserved.peak);
}

namespace {

// NCCL's C interface, as far as it goes here; libtorch_cuda brings the library.
struct Nccl {
  struct UniqueId {
    char text[128];
  };
  static constexpr int kFloat = 7;
  static constexpr int kSum = 0;

  template <class Function>
  static void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    require(function != nullptr, std::string("NCCL has no ") + name);
  }
  Nccl() {
    find(get_unique_id, "ncclGetUniqueId");
    find(init_rank, "ncclCommInitRank");
    find(all_reduce, "ncclAllReduce");
    find(destroy, "ncclCommDestroy");
  }

  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(void** communicator, int ranks, UniqueId, int rank);
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    void* communicator, cudaStream_t);
  int (*destroy)(void* communicator);
};

}  // namespace

std::string nccl_single_rank() {
  const Nccl nccl;
  const auto check = [](int result, const char* call) {
    require(result == 0, std::string(call) + " gave error " + std::to_string(result));
  };
  Nccl::UniqueId id{};
  void* communicator = nullptr;
  check(nccl.get_unique_id(&id), "ncclGetUniqueId");
  check(nccl.init_rank(&communicator, 1, id, 0), "ncclCommInitRank");
  const at::Tensor from = at::full({16 << 20}, 5.0, on_gpu());
  const at::Tensor to = at::zeros_like(from);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  check(nccl.all_reduce(from.const_data_ptr(), to.mutable_data_ptr(), static_cast<std::size_t>(from.numel()),
                        Nccl::kFloat, Nccl::kSum, communicator, stream),
        "ncclAllReduce");
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  check(nccl.destroy(communicator), "ncclCommDestroy");
  require(all_equal(to, 5.0), "the sum over one rank is something else");
  device_allocator().audit();
  return "an all-reduce of 64 MiB over one rank";
}

}  // namespace cistern::gpu
