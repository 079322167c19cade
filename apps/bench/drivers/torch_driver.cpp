// cistern-bench's driver of torch's own allocator (variant native; expandable segments by
// PYTORCH_CUDA_ALLOC_CONF) and of cistern's plug in its place (variant cistern; CISTERN_CONF says the rest),
// over the fake CUDA runtime, whose device does all work at once. One trace a process: the runtime's peak
// does not begin anew.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <set>
#include <unordered_map>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "driver.hpp"
#include "support/fake_cudart/control.hpp"

// libtorch_cuda says this to libc10_cuda when it is loaded; no header declares it.
namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*)(c10::DeviceIndex));
}

// Allocators ask this before each allocation. A driver reads it from the thread; the fake runtime counts
// calls under one lock, which would be most of what is measured. There is one device here.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

namespace cistern::bench {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;

class Torch {
 public:
  explicit Torch(const std::string& variant) : ours_(variant == "cistern") {
    if (!ours_ && variant != "native") throw std::invalid_argument("unknown variant " + variant);
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    if (ours_) install_cuda();
  }

  void expect(const ReplayProgram&) {}
  void start(std::uint64_t capacity_bytes, std::uint64_t) {
    fakecuda_set_device_bytes(0, capacity_bytes);
    if (allocator_ == nullptr) {
      allocator_ = cca::get();
      allocator_->init(1);
    }
    fakecuda_reset_calls();
  }
  void stop() {
    for (const unsigned pool : pools_) allocator_->releasePool(0, {0, pool});
    pools_.clear();
    allocator_->emptyCache();
  }

  void* allocate(std::uint64_t bytes, std::uint64_t stream, unsigned pool) {
    if (pool != 0) begin(pool);
    void* data = nullptr;
    try {
      data = allocator_->raw_alloc_with_stream(bytes, stream_of(stream));
    } catch (const c10::OutOfMemoryError&) {
    }
    if (pool != 0) allocator_->endAllocateToPool(0, {0, pool});
    return data;
  }
  void free(void* data, std::uint64_t, std::uint64_t) { allocator_->raw_delete(data); }
  void use(void* data, std::uint64_t stream) {
    c10::DataPtr pointer(data, data, allocator_->raw_deleter(), c10::Device(c10::DeviceType::CUDA, 0));
    allocator_->recordStream(pointer, c10::cuda::getStreamFromExternal(stream_of(stream), 0));
    static_cast<void>(pointer.release_context());
  }
  void sync(std::uint64_t stream) { static_cast<void>(cudaStreamSynchronize(stream_of(stream))); }
  void step() {}

  Usage usage() const {
    Usage usage{fakecuda_used_bytes(0), fakecuda_peak_used_bytes(0), 0, 0};
    for (const char* call : {"cudaMalloc", "cudaFree", "cuMemMap", "cuMemUnmap"})
      usage.source_calls += fakecuda_calls(call);
    // Native maps pieces of several sizes and takes none back before memory is short: what it mapped is its
    // peak.
    const std::uint64_t maps = fakecuda_calls("cuMemMap");
    if (maps > 0)
      usage.mapped_bytes =
          ours_ ? maps * cuda_allocator(0).source_traits().granule_bytes : usage.peak_reserved_bytes;
    return usage;
  }

 private:
  void begin(unsigned pool) {
    if (pools_.insert(pool).second) allocator_->createOrIncrefPool(0, {0, pool});
    allocator_->beginAllocateToPool(0, {0, pool}, [](cudaStream_t) { return true; });
  }

  /// Stream 0 is the default stream.
  cudaStream_t stream_of(std::uint64_t number) {
    if (number == 0) return nullptr;
    thread_local std::unordered_map<std::uint64_t, cudaStream_t> streams;
    cudaStream_t& stream = streams[number];
    if (stream == nullptr && cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
      throw std::runtime_error("cudaStreamCreateWithFlags failed");
    }
    return stream;
  }

  const bool ours_;
  cca::CUDAAllocator* allocator_ = nullptr;
  std::set<unsigned> pools_;
};

}  // namespace
}  // namespace cistern::bench

int main(int argc, char** argv) {
  return cistern::bench::run_driver<cistern::bench::Torch>(argc, argv);
}
