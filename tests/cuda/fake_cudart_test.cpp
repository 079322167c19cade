// The rules of the fake runtime itself, each tried once: tests over it are worth no more than these.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/fake_cudart_fixture.hpp"

namespace {

using cistern::support::FakeCudart;
using testing::HasSubstr;

constexpr std::size_t kMiB = cistern::support::kFakeMiB;
constexpr std::size_t kGranule = cistern::support::kFakeGranule;

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
  EXPECT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
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

TEST_F(FakeCudart, AnotherProcessSeesTheSameBytesThroughBothKindsOfHandles) {
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  struct Message {
    cudaIpcMemHandle_t handle;
    int process;
    int descriptor;
  } message = {};
  const pid_t child = fork();  // before either process has used the runtime
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (read(to_child[0], &message, sizeof message) != sizeof message) _exit(1);
    void* shared = nullptr;
    if (cudaIpcOpenMemHandle(&shared, message.handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess)
      _exit(2);
    const int process = static_cast<int>(syscall(SYS_pidfd_open, message.process, 0));
    const auto file = syscall(SYS_pidfd_getfd, process, message.descriptor, 0);
    CUmemGenericAllocationHandle imported = 0;
    if (cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(file),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
      _exit(3);
    }
    char* mapped = pointer(map_granule(imported));
    const bool same = std::string(static_cast<char*>(shared)) == "malloc" && std::string(mapped) == "granule";
    *static_cast<char*>(shared) = *mapped = '!';
    _exit(same && cudaIpcCloseMemHandle(shared) == cudaSuccess && *fakecuda_misuses() == '\0' ? 0 : 4);
  }
  prctl(PR_SET_PTRACER, child);  // else it may not take our descriptors where that is restricted
  char* memory = allocate(4 * kMiB);
  const CUmemGenericAllocationHandle granule = create(kGranule);
  char* mapped = pointer(map_granule(granule));
  std::strcpy(memory, "malloc");
  std::strcpy(mapped, "granule");
  message.process = getpid();
  EXPECT_EQ(cudaIpcGetMemHandle(&message.handle, memory), cudaSuccess);
  EXPECT_EQ(
      cuMemExportToShareableHandle(&message.descriptor, granule, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_SUCCESS);
  ASSERT_EQ(write(to_child[1], &message, sizeof message), static_cast<ssize_t>(sizeof message));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(memory[0], '!');
  EXPECT_EQ(mapped[0], '!');
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, message.handle, 0), cudaErrorDeviceUninitialized);
  close(message.descriptor);
  for (int end : {to_child[0], to_child[1]}) close(end);
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

TEST_F(FakeCudart, KernelsDoNothingAndFailWhereTheEnvironmentSaysSo) {
  const dim3 one(1);
  EXPECT_EQ(cudaLaunchKernel(nullptr, one, one, nullptr, 0, nullptr), cudaSuccess);
  setenv("FAKE_CUDART_KERNELS", "error", 1);
  EXPECT_EQ(cudaLaunchKernel(nullptr, one, one, nullptr, 0, nullptr), cudaErrorNoKernelImageForDevice);
  unsetenv("FAKE_CUDART_KERNELS");
  EXPECT_EQ(fakecuda_calls("cudaLaunchKernel"), 2u);
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
