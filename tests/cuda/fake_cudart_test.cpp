// The rules of the fake runtime itself, each tried once: tests over it are worth no more than these.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_cudart/control.hpp"

namespace {

using testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGranule = 2 * kMiB;

class FakeCudart : public testing::Test {
 protected:
  void SetUp() override { fakecuda_reset(2, 64 * kMiB); }

  static std::string misuses() { return fakecuda_misuses(); }
  static fakecuda_counts count() {
    fakecuda_counts counts;
    fakecuda_count(&counts);
    return counts;
  }
  static cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
  static unsigned long long id_of(cudaStream_t stream) {
    unsigned long long id = 0;
    EXPECT_EQ(cudaStreamGetId(stream, &id), cudaSuccess);
    return id;
  }
  static char* allocate(std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, bytes), cudaSuccess);
    return static_cast<char*>(pointer);
  }
  static CUmemGenericAllocationHandle create(std::size_t bytes, int device = 0) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  static CUresult let_touch(CUdeviceptr address, std::size_t bytes, int device) {
    CUmemAccessDesc access = {};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return cuMemSetAccess(address, bytes, &access, 1);
  }
  /// A mapped granule that device 0 may touch.
  static CUdeviceptr map_granule(CUmemGenericAllocationHandle handle) {
    const CUdeviceptr address = reserve(kGranule);
    EXPECT_EQ(cuMemMap(address, kGranule, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(let_touch(address, kGranule, 0), CUDA_SUCCESS);
    return address;
  }
  static char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }
};

// Devices and memory.

TEST_F(FakeCudart, ADeviceGivesWhatItsBudgetHoldsAndNoMore) {
  char* all = allocate(64 * kMiB);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaFree(allocate(kMiB)), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaFree(all), cudaSuccess);
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
  EXPECT_EQ(fakecuda_peak_used_bytes(0), 64 * kMiB);
}

TEST_F(FakeCudart, MallocIsChargedTo512Bytes) {
  allocate(1);
  EXPECT_EQ(fakecuda_used_bytes(0), 512u);
  allocate(513);
  EXPECT_EQ(fakecuda_used_bytes(0), 512u + 1024u);
}

TEST_F(FakeCudart, FreshMemoryReadsZeroAndCopiesMoveBytes) {
  std::vector<char> sent(kMiB);
  std::iota(sent.begin(), sent.end(), 0);
  char* first = allocate(kMiB);
  char* second = allocate(kMiB);
  std::vector<char> got(kMiB, 'x');
  EXPECT_EQ(cudaMemcpy(got.data(), first, kMiB, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got, std::vector<char>(kMiB, 0));
  EXPECT_EQ(cudaMemcpy(first, sent.data(), kMiB, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(second, first, kMiB, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(got.data(), second, kMiB, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(got, sent);
}

TEST_F(FakeCudart, WithoutDevicesSaysSo) {
  fakecuda_reset(0, 0);
  int device_count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&device_count), cudaErrorNoDevice);
  EXPECT_EQ(device_count, 0);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorNoDevice);
}

// Streams and events.

TEST_F(FakeCudart, AStreamThatNobodyHoldsDoesItsWorkAtOnce) {
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, make_stream()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeCudart, AHeldStreamGoesOnlyAsFarAsItIsAdvanced) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t first = make_event();
  const cudaEvent_t second = make_event();
  fakecuda_hold(stream);
  cudaEventRecord(first, stream);
  cudaEventRecord(second, stream);
  EXPECT_EQ(fakecuda_pending(stream), 2u);
  EXPECT_EQ(cudaEventQuery(first), cudaErrorNotReady);
  EXPECT_EQ(fakecuda_advance(stream, 1), 1u);
  EXPECT_EQ(cudaEventQuery(first), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(second), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  fakecuda_release(stream);
  EXPECT_EQ(cudaEventQuery(second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST_F(FakeCudart, ACopyOfAHeldStreamMovesItsBytesOnlyWhenItsTurnComes) {
  const cudaStream_t stream = make_stream();
  char* memory = allocate(8);
  fakecuda_hold(stream);
  {
    const std::string sent = "changes";
    EXPECT_EQ(cudaMemcpyAsync(memory, sent.c_str(), 8, cudaMemcpyHostToDevice, stream), cudaSuccess);
  }
  EXPECT_STREQ(memory, "");
  fakecuda_release(stream);
  EXPECT_STREQ(memory, "changes");
}

TEST_F(FakeCudart, WorkThatWaitsForAnEventIsNotDoneBeforeIt) {
  const cudaStream_t held = make_stream();
  const cudaStream_t other = make_stream();
  const cudaEvent_t earlier = make_event();
  const cudaEvent_t later = make_event();
  fakecuda_hold(held);
  cudaEventRecord(earlier, held);
  EXPECT_EQ(cudaStreamWaitEvent(other, earlier, 0), cudaSuccess);
  cudaEventRecord(later, other);
  EXPECT_EQ(cudaEventQuery(later), cudaErrorNotReady);
  EXPECT_EQ(fakecuda_advance(other, 5), 0u);
  fakecuda_release(held);
  EXPECT_EQ(cudaEventQuery(later), cudaSuccess);
}

TEST_F(FakeCudart, SynchronisingMakesTimePassForAHeldStream) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  fakecuda_hold(stream);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
}

TEST_F(FakeCudart, HandlesComeBackAndIdsNeverDo) {
  const cudaStream_t first = make_stream();
  const unsigned long long first_id = id_of(first);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first), cudaErrorInvalidResourceHandle);
  const cudaStream_t second = make_stream();
  EXPECT_EQ(second, first);
  EXPECT_NE(id_of(second), first_id);
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(make_event(), event);
}

TEST_F(FakeCudart, TheLegacyStreamIsOneAndThePerThreadStreamIsOneForEachThread) {
  EXPECT_EQ(id_of(nullptr), id_of(cudaStreamLegacy));
  EXPECT_NE(id_of(cudaStreamPerThread), id_of(nullptr));
  EXPECT_EQ(id_of(cudaStreamPerThread), id_of(cudaStreamPerThread));
  unsigned long long other_legacy = 0;
  unsigned long long other_own = 0;
  std::thread([&] {
    other_legacy = id_of(nullptr);
    other_own = id_of(cudaStreamPerThread);
  }).join();
  EXPECT_EQ(other_legacy, id_of(nullptr));
  EXPECT_NE(other_own, id_of(cudaStreamPerThread));
}

TEST_F(FakeCudart, TheLegacyStreamWaitsForBlockingStreamsOnly) {
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  const cudaStream_t free_running = make_stream();
  const cudaEvent_t event = make_event();
  fakecuda_hold(free_running);
  cudaEventRecord(event, free_running);
  cudaEventRecord(event, nullptr);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  fakecuda_hold(blocking);
  cudaEventRecord(event, blocking);
  cudaEventRecord(event, nullptr);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  fakecuda_release(blocking);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeCudart, ElapsedTimeNeedsEventsThatTakeTime) {
  const cudaEvent_t start = make_event(cudaEventDefault);
  const cudaEvent_t end = make_event(cudaEventDefault);
  cudaEventRecord(start, nullptr);
  cudaEventRecord(end, nullptr);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, make_event()), cudaErrorInvalidResourceHandle);
}

TEST_F(FakeCudart, HostFunctionsRunInTheOrderOfTheStreamAndMayCallTheRuntime) {
  const cudaStream_t stream = make_stream();
  std::string order;
  const auto append = [](void* text) {
    *static_cast<std::string*>(text) += "host ";
    int device = 0;
    cudaGetDevice(&device);
  };
  fakecuda_hold(stream);
  EXPECT_EQ(cudaLaunchHostFunc(stream, append, &order), cudaSuccess);
  EXPECT_EQ(order, "");
  fakecuda_release(stream);
  EXPECT_EQ(order, "host ");
}

// Captures.

TEST_F(FakeCudart, UnsafeCallsFailWhileAStreamCapturesAndSpoilTheCapture) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  cudaEventRecord(event, stream);
  char* memory = allocate(512);
  void* more = nullptr;
  const std::vector<std::function<cudaError_t()>> unsafe_calls = {
      [&] { return cudaMalloc(&more, 512); },     [&] { return cudaFree(memory); },
      [&] { return cudaEventQuery(event); },      [&] { return cudaEventSynchronize(event); },
      [&] { return cudaStreamQuery(nullptr); },   [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaDeviceSynchronize(); },    [&] { return cudaHostAlloc(&more, 512, 0); },
  };
  for (const auto& call : unsafe_calls) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
  }
}

TEST_F(FakeCudart, ARelaxedThreadMayCallWhatItLikesDuringACapture) {
  const cudaStream_t stream = make_stream();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaFree(allocate(512)), cudaSuccess);
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(FakeCudart, AGlobalCaptureForbidsOtherThreadsAndAThreadLocalOneDoesNot) {
  const cudaStream_t stream = make_stream();
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    cudaError_t result = cudaSuccess;
    std::thread([&] {
      void* memory = nullptr;
      result = cudaMalloc(&memory, 512);
    }).join();
    const bool forbidden = mode == cudaStreamCaptureModeGlobal;
    EXPECT_EQ(result, forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
}

TEST_F(FakeCudart, ACapturedEventCannotBeAsked) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeCudart, AGraphRepeatsWhatWasCapturedOnAllStreamsThatJoined) {
  const cudaStream_t stream = make_stream();
  const cudaStream_t side = make_stream();
  const cudaEvent_t fork = make_event();
  const cudaEvent_t join = make_event();
  char* memory = allocate(2);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(fork, stream);
  EXPECT_EQ(cudaStreamWaitEvent(side, fork, 0), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(side, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaMemsetAsync(memory, 'a', 1, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory + 1, 'b', 1, side), cudaSuccess);
  cudaEventRecord(join, side);
  EXPECT_EQ(cudaStreamWaitEvent(stream, join, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(memory[0], 0);
  std::size_t node_count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &node_count), cudaSuccess);
  EXPECT_EQ(node_count, 2u);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    cudaMemset(memory, 0, 2);
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(std::string(memory, 2), "ab");
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(FakeCudart, ACaptureThatLeavesAStreamBehindFails) {
  const cudaStream_t stream = make_stream();
  const cudaStream_t side = make_stream();
  const cudaEvent_t fork = make_event();
  char* memory = allocate(1);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(side, fork, 0);
  cudaMemsetAsync(memory, 'b', 1, side);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
}

TEST_F(FakeCudart, ACapturedStreamCannotDependOnOutsideWorkNorTheLegacyStreamOnItsCapture) {
  const cudaStream_t stream = make_stream(cudaStreamDefault);
  const cudaEvent_t outside = make_event();
  cudaEventRecord(outside, nullptr);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(outside, nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
}

// Virtual memory.

TEST_F(FakeCudart, MappedMemoryIsChargedOnceAndKeepsItsBytesThroughARemap) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  EXPECT_EQ(fakecuda_used_bytes(0), kGranule);
  const CUdeviceptr first = map_granule(handle);
  EXPECT_EQ(cudaMemset(pointer(first), 'q', kGranule), cudaSuccess);
  EXPECT_EQ(cuMemUnmap(first, kGranule), CUDA_SUCCESS);
  const CUdeviceptr second = map_granule(handle);
  EXPECT_EQ(pointer(second)[kGranule - 1], 'q');
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(fakecuda_used_bytes(0), kGranule) << "a mapping keeps memory alive";
  EXPECT_EQ(cuMemUnmap(second, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(fakecuda_used_bytes(0), 0u);
  EXPECT_EQ(cuMemAddressFree(first, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(second, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(count().address_ranges, 0u);
  EXPECT_EQ(misuses(), "");
}

TEST_F(FakeCudart, NewPhysicalMemoryReadsZeroEvenAfterOthersWereReleased) {
  for (int round = 0; round < 2; ++round) {
    const CUmemGenericAllocationHandle handle = create(kGranule);
    const CUdeviceptr address = map_granule(handle);
    EXPECT_EQ(pointer(address)[100], 0);
    pointer(address)[100] = 'x';
    cuMemUnmap(address, kGranule);
    cuMemRelease(handle);
  }
}

TEST_F(FakeCudart, SizesOutsideTheGranularityAreRefused) {
  std::size_t granularity = 0;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  EXPECT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  EXPECT_EQ(granularity, kGranule);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kGranule + 4096, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 128 * kMiB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr range = reserve(2 * kGranule);
  EXPECT_EQ(cuMemMap(range + 4096, kGranule, 0, create(kGranule), 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeCudart, AnExportedHandleLeadsToTheSameMemory) {
  const CUmemGenericAllocationHandle handle = create(kGranule);
  int descriptor = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(std::intptr_t{descriptor}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(descriptor);
  const CUdeviceptr mine = map_granule(handle);
  const CUdeviceptr theirs = map_granule(imported);
  pointer(mine)[7] = 's';
  EXPECT_EQ(pointer(theirs)[7], 's');
  EXPECT_EQ(fakecuda_used_bytes(0), kGranule);
}

TEST_F(FakeCudart, DriverFunctionsAreFoundByLookupAndInLibcuda) {
  void* looked_up = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemCreate", &looked_up, 12000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(dlsym(library, "cuMemCreate"), looked_up);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNothing", &looked_up, 12000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(looked_up, nullptr);
  dlclose(library);
}

// Failpoints and counters.

TEST_F(FakeCudart, TheNthCallFailsAndOthersDoNot) {
  fakecuda_fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 512), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 512), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 512), cudaSuccess);
  EXPECT_EQ(fakecuda_calls("cudaMalloc"), 3u);
  EXPECT_EQ(count().device_allocations, 2u);
  fakecuda_fail_call("*", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
}

TEST_F(FakeCudart, RequestsAboveASizeFailUntilThatIsCleared) {
  fakecuda_fail_above(kMiB);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, kMiB), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, kMiB + 1), cudaErrorMemoryAllocation);
  fakecuda_clear_failures();
  EXPECT_EQ(cudaMalloc(&memory, kMiB + 1), cudaSuccess);
}

TEST_F(FakeCudart, WhatIsAliveIsCountedAndNamed) {
  make_stream();
  make_event();
  allocate(512);
  const CUmemGenericAllocationHandle handle = create(kGranule);
  map_granule(handle);
  const fakecuda_counts counts = count();
  EXPECT_EQ(counts.streams, 1u);
  EXPECT_EQ(counts.events, 1u);
  EXPECT_EQ(counts.device_allocations, 1u);
  EXPECT_EQ(counts.physical_handles, 1u);
  EXPECT_EQ(counts.physical_bytes, kGranule);
  EXPECT_EQ(counts.mappings, 1u);
  EXPECT_EQ(counts.address_ranges, 1u);
  for (const char* what : {"stream 0x", "event 0x", "device memory 0x", "physical memory 0x", "mapping 0x"}) {
    EXPECT_THAT(fakecuda_live_text(), HasSubstr(what));
  }
}

// Misuse.

TEST_F(FakeCudart, ADoubleFreeIsRecorded) {
  char* memory = allocate(512);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_THAT(misuses(), HasSubstr("cudaFree: 0x"));
  const CUmemGenericAllocationHandle handle = create(kGranule);
  cuMemRelease(handle);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(misuses(), HasSubstr("cuMemRelease: 0x"));
  EXPECT_EQ(fakecuda_misuse_count(), 2u);
}

TEST_F(FakeCudart, MappingTwiceAndFreeingARangeThatIsMappedAreRecorded) {
  const CUdeviceptr address = map_granule(create(kGranule));
  EXPECT_EQ(cuMemMap(address, kGranule, 0, create(kGranule), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(misuses(), HasSubstr("is mapped already"));
  EXPECT_EQ(cuMemAddressFree(address, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(misuses(), HasSubstr("still has memory mapped"));
}

TEST_F(FakeCudart, UnmappingWhatAStreamStillUsesIsRecorded) {
  const CUdeviceptr address = map_granule(create(kGranule));
  const cudaStream_t stream = make_stream();
  fakecuda_hold(stream);
  fakecuda_touch(stream, pointer(address), 1);
  EXPECT_EQ(cuMemUnmap(address, kGranule), CUDA_SUCCESS);
  EXPECT_THAT(misuses(), HasSubstr("is still used by stream"));
}

TEST_F(FakeCudart, FreeWaitsForItsOwnDeviceOnly) {
  char* memory = allocate(512);
  const cudaStream_t own = make_stream();
  fakecuda_hold(own);
  fakecuda_touch(own, memory, 512);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(misuses(), "");
  EXPECT_EQ(count().implicit_waits, 1u);
  memory = allocate(512);
  cudaSetDevice(1);
  cudaDeviceEnablePeerAccess(0, 0);
  const cudaStream_t foreign = make_stream();
  fakecuda_hold(foreign);
  fakecuda_touch(foreign, memory, 512);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_THAT(misuses(), HasSubstr("of device 1"));
  fakecuda_release_all();
  cudaSetDevice(0);
}

TEST_F(FakeCudart, TouchingWithoutRightsOrPastTheEndIsRecorded) {
  const CUdeviceptr address = reserve(kGranule);
  cuMemMap(address, kGranule, 0, create(kGranule), 0);
  EXPECT_EQ(cudaMemset(pointer(address), 0, 1), cudaErrorIllegalAddress) << "no rights yet";
  EXPECT_EQ(let_touch(address, kGranule, 1), CUDA_SUCCESS);
  EXPECT_EQ(cudaMemset(pointer(address), 0, 1), cudaErrorIllegalAddress) << "rights of another device";
  EXPECT_EQ(let_touch(address, kGranule, 0), CUDA_SUCCESS);
  EXPECT_EQ(cudaMemset(pointer(address), 0, kGranule), cudaSuccess);
  EXPECT_EQ(cudaMemset(pointer(address), 0, kGranule + 1), cudaErrorIllegalAddress);
  char* memory = allocate(512);
  EXPECT_EQ(cudaMemset(memory, 0, 513), cudaErrorIllegalAddress);
  EXPECT_EQ(fakecuda_misuse_count(), 4u);
}

TEST_F(FakeCudart, APeersMemoryMayBeTouchedOnceAccessIsEnabled) {
  char* memory = allocate(512);
  cudaSetDevice(1);
  fakecuda_touch(nullptr, memory, 512);
  EXPECT_THAT(misuses(), HasSubstr("device 1 may not touch"));
  fakecuda_forget_misuses();
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  fakecuda_touch(nullptr, memory, 512);
  EXPECT_EQ(misuses(), "");
  cudaSetDevice(0);
}

TEST_F(FakeCudart, AStrictProcessThatMisusedSomethingExitsWith97) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("FAKE_CUDART_STRICT", "1", 1);
    // A fork of a process that used CUDA; what it does wrong on purpose is recorded all the same.
    fakecuda_hold(reinterpret_cast<void*>(0x1234));
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 97);
}

TEST_F(FakeCudart, InAForkOfAProcessThatUsedItNothingWorks) {
  make_stream();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, 512) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
