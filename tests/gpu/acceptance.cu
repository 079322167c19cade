// acceptance PART...: runs those parts of the acceptance, each line of output a PASS, a FAIL or a row of
// figures. Give each part a process of its own: then what one breaks, the others do not meet. CISTERN_CONF
// applies.
#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <thread>
#include <vector>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "gpu/acceptance.hpp"

namespace cistern::gpu {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;

// A block's words are all different, and different in every block.
__host__ __device__ std::uint64_t word_of(std::uint64_t tag, std::size_t index) {
  return tag * 0x9e3779b97f4a7c15ULL + index;
}

__global__ void fill_words(std::uint64_t* words, std::size_t count, std::uint64_t tag) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    words[i] = word_of(tag, i);
}

__global__ void count_mismatches(const std::uint64_t* words, std::size_t count, std::uint64_t tag,
                                 unsigned long long* mismatches) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (words[i] != word_of(tag, i)) atomicAdd(mismatches, 1ULL);
  }
}

__global__ void linger(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

constexpr unsigned kThreads = 256;
unsigned blocks_for(std::size_t words) {
  return static_cast<unsigned>(std::min<std::size_t>((words + kThreads - 1) / kThreads, 1024));
}

/// Counts on the device what was found wrong.
class Mismatches {
 public:
  Mismatches() {
    C10_CUDA_CHECK(cudaMalloc(&count_, sizeof *count_));
    C10_CUDA_CHECK(cudaMemset(count_, 0, sizeof *count_));
  }
  ~Mismatches() { cudaFree(count_); }
  Mismatches(const Mismatches&) = delete;
  Mismatches& operator=(const Mismatches&) = delete;

  unsigned long long* counter() const { return count_; }
  /// Waits for everything, and starts anew.
  unsigned long long take() {
    unsigned long long count = 0;
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    C10_CUDA_CHECK(cudaMemcpy(&count, count_, sizeof count, cudaMemcpyDeviceToHost));
    C10_CUDA_CHECK(cudaMemset(count_, 0, sizeof *count_));
    return count;
  }

 private:
  unsigned long long* count_ = nullptr;
};

/// A block with a pattern of its own, written when it was granted.
struct Patterned {
  Patterned(std::size_t bytes, std::uint64_t number, CUDAStream stream)
      : data(cca::get()->allocate(bytes)), words(bytes / sizeof(std::uint64_t)), tag(number) {
    fill_words<<<blocks_for(words), kThreads, 0, stream>>>(static_cast<std::uint64_t*>(data.get()), words,
                                                           tag);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  void check(CUDAStream stream, const Mismatches& mismatches) const {
    count_mismatches<<<blocks_for(words), kThreads, 0, stream>>>(
        static_cast<const std::uint64_t*>(data.get()), words, tag, mismatches.counter());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  c10::DataPtr data;
  std::size_t words;
  std::uint64_t tag;
};

struct Event {
  Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

/// What is done on `after` from now on waits for what was done on `before` until now.
void order(CUDAStream before, CUDAStream after, const Event& event) {
  C10_CUDA_CHECK(cudaEventRecord(event.handle, before));
  C10_CUDA_CHECK(cudaStreamWaitEvent(after, event.handle));
}

/// Allocates and frees at random on its own stream; one block in eight is read on a neighbour's stream last,
/// and freed while that read is under way.
void churn(std::uint64_t worker, const std::vector<CUDAStream>& streams, int operations,
           const Mismatches& mismatches) {
  constexpr std::size_t kMostLive = 200;
  const CUDAStream own = streams[worker];
  const c10::cuda::CUDAStreamGuard guard(own);
  const Event event;
  std::mt19937_64 random(worker);
  std::vector<Patterned> live;
  const auto free_one = [&](std::size_t victim) {
    std::swap(live[victim], live.back());
    if (random() % 8 == 0) {
      const CUDAStream other = streams[(worker + 1) % streams.size()];
      order(own, other, event);
      live.back().check(other, mismatches);
      cca::recordStream(live.back().data, other);
    } else {
      live.back().check(own, mismatches);
    }
    live.pop_back();
  };
  for (int i = 0; i < operations; ++i) {
    if (live.size() == kMostLive || (!live.empty() && random() % 3 == 0)) free_one(random() % live.size());
    const std::size_t bytes = (std::size_t{512} << (random() % 14)) + random() % 512 * 8;
    live.emplace_back(bytes, (worker << 40) + static_cast<std::uint64_t>(i) + 1, own);
  }
  while (!live.empty()) free_one(live.size() - 1);
}

}  // namespace

std::string patterns_on_four_streams() {
  const int operations = is_fake() ? 2'000 : 20'000;
  Mismatches mismatches;
  std::vector<CUDAStream> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(c10::cuda::getStreamFromPool());
  std::vector<std::exception_ptr> errors(streams.size());
  std::vector<std::thread> workers;
  for (std::size_t worker = 0; worker < streams.size(); ++worker) {
    workers.emplace_back([&, worker] {
      try {
        churn(worker, streams, operations, mismatches);
      } catch (...) {
        errors[worker] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  const unsigned long long found = mismatches.take();
  require(found == 0, std::to_string(found) + " words of live blocks were overwritten by others");
  device_allocator().audit();
  require(device_allocator().stats().allocated.current == 0, "blocks are left over");
  const Stats stats = device_allocator().stats();
  return std::to_string(4 * operations) + " blocks, peak reserved " + format_bytes(stats.reserved.peak) +
         " for " + format_bytes(stats.allocated.peak) + " allocated";
}

std::string record_stream() {
  constexpr std::size_t kBytes = 64 * kMiB;
  const CUDAStream owner = c10::cuda::getStreamFromPool();
  const CUDAStream reader = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(owner);
  Mismatches mismatches;
  // The reader is slow, and the owner frees and writes anew before it has read.
  const auto overwritten = [&](bool recorded) {
    const Event event;
    void* first = nullptr;
    {
      const Patterned block(kBytes, 1, owner);
      first = block.data.get();
      order(owner, reader, event);
      linger<<<1, 1, 0, reader>>>(200'000'000);  // About 0.1 s.
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      block.check(reader, mismatches);
      if (recorded) cca::recordStream(block.data, reader);
    }
    const Patterned next(kBytes, 2, owner);
    const bool same_place = next.data.get() == first;
    const unsigned long long words = mismatches.take();
    if (!is_fake())
      require(same_place != recorded, "the place was reused although recorded, or not reused although free");
    return words;
  };
  const unsigned long long with = overwritten(true);
  require(with == 0, std::to_string(with) + " words were overwritten while another stream read them");
  device_allocator().trim();
  const unsigned long long without = overwritten(false);
  require(is_fake() || without > 0,
          "the control without recordStream saw nothing either, so this part proves nothing");
  return "nothing overwritten; the control without it: " + std::to_string(without) + " words";
}

bool is_fake() {
  static const bool fake = dlsym(RTLD_DEFAULT, "fakecuda_calls") != nullptr;
  return fake;
}

cca::CUDAAllocator& native_allocator() {
  static cca::CUDAAllocator& native = *cca::get();  // run_part asks first, before anything is installed
  return native;
}

CachingAllocator& device_allocator() {
  return cuda_allocator(0);
}

std::size_t free_device_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

namespace {

struct Part {
  const char* name;
  std::string (*run)();
  bool on_fake = true;  ///< Can run where kernels do nothing.
  Options options{};
};

Options preallocating() {
  Options options;
  options.strategy = Strategy::kPreallocate;
  options.headroom_bytes = kGiB;
  return options;
}

const Part kParts[] = {
    {"patterns", &patterns_on_four_streams},
    {"record_stream", &record_stream},
    {"limits", &limits},
    {"trim", &trim},
    {"whole_device", &whole_device},
    {"preallocation", &preallocation, true, preallocating()},
    {"graphs", &graphs},
    {"memory_pool", &memory_pool},
    {"cudnn_benchmark", &cudnn_benchmark, false},
    {"nccl", &nccl_single_rank, false},
    {"granule_costs", &granule_costs},
    {"hot_path_costs", &hot_path_costs},
};

bool run_part(const Part& part) {
  if (!part.on_fake && is_fake()) {
    std::printf("SKIP %s: needs a GPU\n", part.name);
    return true;
  }
  const auto start = std::chrono::steady_clock::now();
  std::string verdict = "PASS";
  std::string text;
  try {
    native_allocator();
    install_cuda(part.options);
    at::globalContext().lazyInitDevice(c10::kCUDA);
    require(cca::get()->name() == "cistern", "torch's allocator is " + cca::get()->name());
    text = part.run();
  } catch (const c10::Error& error) {
    verdict = "FAIL", text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    verdict = "FAIL", text = error.what();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%s %s: %s (%.2f s)\n", verdict.c_str(), part.name, text.c_str(), seconds.count());
  std::fflush(stdout);
  return verdict == "PASS";
}

}  // namespace
}  // namespace cistern::gpu

int main(int argc, char** argv) {
  using namespace cistern::gpu;
  bool all_passed = argc > 1;
  for (int i = 1; i < argc; ++i) {
    bool found = false;
    for (const Part& part : kParts) {
      if (std::strcmp(part.name, argv[i]) != 0) continue;
      found = true;
      all_passed = run_part(part) && all_passed;
    }
    if (!found) std::printf("FAIL %s: there is no such part\n", argv[i]);
    all_passed = found && all_passed;
  }
  if (argc == 1) {
    for (const Part& part : kParts) std::printf("%s\n", part.name);
  }
  return all_passed ? 0 : 1;
}
