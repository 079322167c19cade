// cistern-bench's driver of RMM's pool, the librmm wheel's own. Variant growing begins with nothing and
// doubles; variant fixed takes what it is to have at once. It knows no pools, and no second stream that uses
// a block: its users make the stream of the free wait. The wheel has a CUDA runtime linked in that finds no
// device, and its inline parts call the functions below instead.
#include <cuda_runtime_api.h>

#include <memory>
#include <new>
#include <optional>

#include <rmm/cuda_device.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include "driver.hpp"
#include "invented_memory.hpp"

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  return *device = 0, cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  return *count = 1, cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  static std::uintptr_t last = 0;
  return *event = reinterpret_cast<cudaEvent_t>(++last), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
// Inside the wheel this fails and leaves 0, for the default stream: its free list would be another one else.
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = stream == cudaStreamLegacy ? 0 : reinterpret_cast<std::uintptr_t>(stream);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
  return "?";
}
const char* cudaGetErrorString(cudaError_t) {
  return "?";
}
}

namespace cistern::bench {
namespace {

constexpr std::uint64_t kAlignment = 256;

/// In the shape that RMM wants of a resource.
class Upstream {
 public:
  explicit Upstream(InventedMemory& memory) : memory_(&memory) {}

  void* allocate_sync(std::size_t bytes, std::size_t = kAlignment) {
    void* const data = memory_->allocate(bytes);
    if (data == nullptr) throw rmm::out_of_memory("no room");
    return data;
  }
  void deallocate_sync(void*, std::size_t bytes, std::size_t = kAlignment) noexcept { memory_->free(bytes); }
  void* allocate(cuda::stream_ref, std::size_t bytes, std::size_t = kAlignment) {
    return allocate_sync(bytes);
  }
  void deallocate(cuda::stream_ref, void* data, std::size_t bytes, std::size_t = kAlignment) noexcept {
    deallocate_sync(data, bytes);
  }
  bool operator==(const Upstream& other) const { return memory_ == other.memory_; }
  bool operator!=(const Upstream& other) const { return memory_ != other.memory_; }
  friend void get_property(const Upstream&, cuda::mr::device_accessible) noexcept {}

 private:
  InventedMemory* memory_;
};

class Rmm {
 public:
  explicit Rmm(const std::string& variant) : grows_(variant == "growing") {
    if (!grows_ && variant != "fixed") throw std::invalid_argument("unknown variant " + variant);
  }

  void expect(const ReplayProgram&) {}
  void start(std::uint64_t capacity_bytes, std::uint64_t wish_bytes) {
    std::uint64_t taken = grows_ ? capacity_bytes : std::min(capacity_bytes, wish_bytes);
    taken = taken / kAlignment * kAlignment;
    memory_.emplace(taken);
    pool_.emplace(Upstream(*memory_), grows_ ? 0 : taken,
                  grows_ ? std::nullopt : std::optional<std::size_t>(taken));
  }
  void stop() {
    pool_.reset();
    memory_.reset();
  }

  void* allocate(std::uint64_t bytes, std::uint64_t stream, unsigned) {
    try {
      return pool_->allocate(stream_of(stream), bytes, kAlignment);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  void free(void* data, std::uint64_t bytes, std::uint64_t stream) {
    pool_->deallocate(stream_of(stream), data, bytes, kAlignment);
  }
  void use(void*, std::uint64_t) {}
  void sync(std::uint64_t) {}
  void step() {}

  Usage usage() const { return memory_->usage(); }

 private:
  /// Stream 0 is the default stream; the next handles have meanings of their own.
  static cuda::stream_ref stream_of(std::uint64_t number) {
    return cuda::stream_ref{reinterpret_cast<cudaStream_t>(number == 0 ? 0 : number + 16)};
  }

  const bool grows_;
  std::optional<InventedMemory> memory_;
  std::optional<rmm::mr::pool_memory_resource> pool_;
};

}  // namespace
}  // namespace cistern::bench

int main(int argc, char** argv) {
  return cistern::bench::run_driver<cistern::bench::Rmm>(argc, argv);
}
