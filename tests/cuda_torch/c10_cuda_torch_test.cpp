// The CUDA plug under the whole of torch: what programs call goes through cistern.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>

#include "cuda_torch/c10_cuda_world.hpp"

namespace cistern::support {
namespace {

class C10CudaTorch : public ::testing::Test {
 protected:
  C10CudaTorch() { install_cuda(); }
  void TearDown() override {
    EXPECT_STREQ(fakecuda_misuses(), "");
    cuda_allocator(0).audit();
  }
  static at::Tensor on_cuda(std::int64_t bytes) {
    return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  }
  static std::uint64_t requested() { return cuda_allocator(0).stats().requested.current; }
  static bool is_ours(const at::Tensor& tensor) {
    return cuda_allocator(0).find(reinterpret_cast<Address>(tensor.storage().data())).has_value();
  }
};

TEST_F(C10CudaTorch, TensorsTheirViewsAndTheirStoragesLiveInCistern) {
  at::Tensor tensor = on_cuda(3000);
  EXPECT_TRUE(is_ours(tensor));
  EXPECT_EQ(requested(), 3000u);
  at::Tensor view = tensor.slice(0, 1000);
  tensor.reset();
  EXPECT_EQ(requested(), 3000u) << "the view keeps the storage";
  view.resize_({10000});
  EXPECT_EQ(requested(), 11000u) << "the view begins 1000 bytes in";
  at::Tensor alias = at::empty({0}, view.options()).set_(view.storage());
  view.reset();
  EXPECT_EQ(requested(), 11000u);
  alias.reset();
  EXPECT_EQ(requested(), 0u);
}

TEST_F(C10CudaTorch, CopiesThereAndBackKeepTheirBytes) {
  const at::Tensor here = at::arange(1 << 20, at::kInt);
  const at::Tensor there = here.to(at::kCUDA);
  EXPECT_TRUE(is_ours(there));
  EXPECT_TRUE(at::equal(there.to(at::kCPU), here));
  const at::Tensor peer = there.to(at::Device(at::kCUDA, 1));
  EXPECT_TRUE(at::equal(peer.to(at::kCPU), here));
}

TEST_F(C10CudaTorch, RecordStreamDelaysReuse) {
  at::Tensor tensor = on_cuda(3 << 20);
  const auto side = c10::cuda::getStreamFromPool();
  void* address = tensor.data_ptr();
  fakecuda_hold(side.stream());
  tensor.record_stream(side);
  tensor.reset();
  const at::Tensor meanwhile = on_cuda(3 << 20);
  EXPECT_NE(meanwhile.data_ptr(), address);
  fakecuda_release(side.stream());
  const at::Tensor after = on_cuda(3 << 20);
  EXPECT_EQ(after.data_ptr(), address);
}

TEST_F(C10CudaTorch, RunningOutIsTorchsOutOfMemoryError) {
  EXPECT_THROW(on_cuda(std::int64_t{1} << 40), c10::OutOfMemoryError);
}

TEST_F(C10CudaTorch, AMemPoolServesWhatIsRoutedToItAndDies) {
  at::Tensor tensor;
  {
    at::cuda::MemPool pool;
    EXPECT_EQ(pool.use_count(), 1);
    cca::beginAllocateToPool(0, pool.id(), [](cudaStream_t) { return true; });
    tensor = on_cuda(1 << 20);
    cca::endAllocateToPool(0, pool.id());
    cca::releasePool(0, pool.id());
    EXPECT_TRUE(cca::get()->checkPoolLiveAllocations(0, pool.id(), {tensor.data_ptr()}));
  }
  EXPECT_EQ(requested(), std::uint64_t{1} << 20);
  tensor.reset();
  cca::emptyCache();
  EXPECT_EQ(cuda_allocator(0).stats().reserved.current, 0u);
}

TEST_F(C10CudaTorch, AGraphCapturesReplaysAndKeepsItsMemory) {
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  on_cuda(1);  // the context is there before the capture
  {
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    on_cuda(1 << 20);
    graph.capture_end();
    graph.replay();
    cca::emptyCache();
    EXPECT_GE(cuda_allocator(0).stats().reserved.current, std::uint64_t{1} << 20);
  }
  cca::emptyCache();
  EXPECT_EQ(cuda_allocator(0).stats().reserved.current, 0u);
}

}  // namespace
}  // namespace cistern::support
