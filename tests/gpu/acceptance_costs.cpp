// What things cost on this machine: the driver's calls by granule, and the hot path against torch's own
// allocator.
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "cistern/sources/cuda/driver_api.hpp"
#include "cistern/sources/cuda/driver_functions.hpp"
#include "gpu/acceptance.hpp"

namespace cistern::gpu {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

DriverApi driver() {
  const auto api = DriverApi::from_process();
  require(static_cast<bool>(api), "there is no CUDA runtime");
  return *api;
}

CUmemAllocationProp on_device_0() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

/// Microseconds for each step of the way of one granule, in kSteps' order.
constexpr std::array kSteps{"create", "map", "set access", "unmap", "release", "cudaMalloc", "cudaFree"};
using StepCosts = std::array<std::vector<double>, kSteps.size()>;

void measure_granule(const DriverFunctions& cuda, CUdeviceptr place, std::size_t bytes, StepCosts& costs) {
  const CUmemAllocationProp properties = on_device_0();
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle{};
  void* allocated = nullptr;
  const std::array<std::function<void()>, kSteps.size()> steps{
      [&] { cuda.check("cuMemCreate", cuda.cuMemCreate(&handle, bytes, &properties, 0)); },
      [&] { cuda.check("cuMemMap", cuda.cuMemMap(place, bytes, 0, handle, 0)); },
      [&] { cuda.check("cuMemSetAccess", cuda.cuMemSetAccess(place, bytes, &access, 1)); },
      [&] { cuda.check("cuMemUnmap", cuda.cuMemUnmap(place, bytes)); },
      [&] { cuda.check("cuMemRelease", cuda.cuMemRelease(handle)); },
      [&] { cuda.check("cudaMalloc", cuda.cudaMalloc(&allocated, bytes)); },
      [&] { cuda.check("cudaFree", cuda.cudaFree(allocated)); }};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Clock::time_point start = Clock::now();
    steps[i]();
    costs[i].push_back(us_since(start));
  }
}

/// Pairs of one size, freed at once.
void pairs_of(cca::CUDAAllocator& allocator, std::size_t bytes, int count) {
  for (int i = 0; i < count; ++i) allocator.raw_delete(allocator.raw_alloc(bytes));
}

/// Frees one of 2,000 live blocks at random and allocates another, 512 B to 8 MiB.
void random_pairs(cca::CUDAAllocator& allocator, std::size_t, int count) {
  constexpr std::size_t kLive = 2'000;
  const std::size_t size_classes = is_fake() ? 10 : 15;
  std::mt19937_64 random(1);
  const auto any_size = [&] { return std::size_t{512} << (random() % size_classes); };
  std::vector<void*> live(kLive);
  for (void*& block : live) block = allocator.raw_alloc(any_size());
  for (int i = 0; i < count; ++i) {
    void*& block = live[random() % kLive];
    allocator.raw_delete(block);
    block = allocator.raw_alloc(any_size());
  }
  for (void* block : live) allocator.raw_delete(block);
}

struct Row {
  const char* name;
  void (*run)(cca::CUDAAllocator&, std::size_t, int);
  std::size_t bytes;
};
constexpr Row kRows[] = {{"512 B", &pairs_of, 512},
                         {"1 MiB", &pairs_of, kMiB},
                         {"4 MiB", &pairs_of, 4 * kMiB},
                         {"2,000 live", &random_pairs, 0}};

/// Nanoseconds a pair, each thread on a stream of its own.
double measure(const Row& row, cca::CUDAAllocator& allocator, int threads) {
  constexpr int kPairs = 50'000;
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
      row.run(allocator, row.bytes, kPairs);
    });
  }
  for (std::thread& worker : workers) worker.join();
  return us_since(start) * 1e3 / kPairs;
}

}  // namespace

std::string granule_costs() {
  constexpr std::size_t kSpace = 256 * kMiB;
  constexpr int kRounds = 32;
  const DriverApi api = driver();
  const DriverFunctions& cuda = api.functions();
  if (cuda.missing_vmm_function != nullptr) return "this driver has no virtual memory management";
  CUdeviceptr place{};
  cuda.check("cuMemAddressReserve", cuda.cuMemAddressReserve(&place, kSpace, 0, 0, 0));
  std::printf("ROW granule_us | bytes");
  for (const char* step : kSteps) std::printf(" | %s", step);
  std::printf("\n");
  for (const std::size_t bytes : {2 * kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB}) {
    StepCosts costs;
    for (int round = 0; round < kRounds; ++round) measure_granule(cuda, place, bytes, costs);
    std::printf("ROW granule_us | %s", format_bytes(bytes).c_str());
    for (const std::vector<double>& step : costs) std::printf(" | %.1f", median(step));
    std::printf("\n");
  }
  cuda.check("cuMemAddressFree", cuda.cuMemAddressFree(place, kSpace));
  return "medians of " + std::to_string(kRounds);
}

std::string hot_path_costs() {
  constexpr int kRounds = 5;
  cca::CUDAAllocator& ours = *cca::get();
  cca::CUDAAllocator& native = native_allocator();
  native.init(1);
  std::string slower;
  std::printf("ROW hot_path_ns | threads | pair | cistern | native | native / cistern\n");
  for (const int threads : {1, 2}) {
    for (const Row& row : kRows) {
      std::vector<double> of_ours, of_native;
      for (int round = 0; round <= kRounds; ++round) {  // A B A B; the first round takes the memory
        of_ours.push_back(measure(row, ours, threads));
        of_native.push_back(measure(row, native, threads));
        if (round == 0) of_ours.clear(), of_native.clear();
      }
      const double a = median(of_ours), b = median(of_native);
      std::printf("ROW hot_path_ns | %d | %s | %.0f | %.0f | %.2f\n", threads, row.name, a, b, b / a);
      if (a > b) slower += std::string(slower.empty() ? "" : ", ") + row.name;
      device_allocator().trim();
      native.emptyCache();
    }
  }
  require(slower.empty() || is_fake(), "slower than torch's own allocator: " + slower);
  return "raw_alloc + raw_delete, medians of " + std::to_string(kRounds) + " rounds, A B A B in one process";
}

}  // namespace cistern::gpu
